public final class Tools {}
