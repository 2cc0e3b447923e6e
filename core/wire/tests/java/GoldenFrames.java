// Writes every message of every version with Apache Kafka's own classes, filled with numbers that are
// the same in every run. One line each: `key version request|response hex`; for what is neither request
// nor response, `- version NAME hex`. The first line of a version has everything filled. A line whose
// version is `LOW>HIGH` has what that first line of LOW says, written as HIGH; or `-` if HIGH cannot
// say it.
//
//   M2=~/.m2/repository/org/apache/kafka
//   java -cp $M2/kafka-clients/4.4.0/kafka-clients-4.4.0.jar:slf4j-api.jar \
//     core/wire/tests/java/GoldenFrames.java message > tests/golden/wire/kafka-clients.txt
//   java -cp $M2/kafka-clients/4.4.0/kafka-clients-4.4.0.jar:$M2/kafka-metadata/4.4.0/kafka-metadata-4.4.0.jar:slf4j-api.jar \
//     core/wire/tests/java/GoldenFrames.java metadata > tests/golden/wire/kafka-metadata.txt

import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.jar.JarFile;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;
import org.apache.kafka.common.record.internal.MemoryRecords;

public class GoldenFrames {
    private final SplittableRandom random;
    private final short version;
    /** Fills everything, or leaves out what can be left out. */
    private final boolean full;

    private GoldenFrames(long seed, short version, boolean full) {
        this.random = new SplittableRandom(seed);
        this.version = version;
        this.full = full;
    }

    public static void main(String[] arguments) throws Exception {
        String folder = "org/apache/kafka/common/" + arguments[0] + "/";
        System.out.println("# Written by GoldenFrames.java with Apache Kafka 4.4.0.");
        for (String name : classes(folder)) {
            Class<?> type = Class.forName(name);
            boolean isMessage = ApiMessage.class.isAssignableFrom(type) && !type.isInterface();
            if (!isMessage || type.getSimpleName().endsWith("HeaderData")) {
                continue;
            }
            ApiMessage example = (ApiMessage) type.getDeclaredConstructor().newInstance();
            for (short v = example.lowestSupportedVersion(); v <= example.highestSupportedVersion(); v++) {
                String last = "";
                for (boolean full : new boolean[] {true, false}) {
                    GoldenFrames frames = new GoldenFrames(type.getSimpleName().hashCode() * 31L + v, v, full);
                    String line = label(example, v) + HexFormat.of().formatHex(bytes(frames.filled(type, 0), v));
                    if (!line.equals(last)) {
                        System.out.println(line);
                    }
                    last = line;
                }
                if (v < example.highestSupportedVersion()) {
                    System.out.println(translated(type, example, v, example.highestSupportedVersion()));
                }
            }
        }
    }

    private static String translated(Class<?> type, ApiMessage example, short low, short high) throws Exception {
        long seed = type.getSimpleName().hashCode() * 31L + low;
        Message message = new GoldenFrames(seed, low, true).filled(type, 0);
        String hex = "-";
        try {
            hex = HexFormat.of().formatHex(bytes(message, high));
        } catch (UnsupportedVersionException | NullPointerException e) {
            // What HIGH cannot say.
        }
        return label(example, low).replaceFirst(" " + low + " ", " " + low + ">" + high + " ") + hex;
    }

    /** The top-level classes of a folder, out of the jar that has it. */
    private static List<String> classes(String folder) throws Exception {
        Map<String, String> names = new TreeMap<>();
        for (String path : System.getProperty("java.class.path").split(":")) {
            if (!path.endsWith(".jar")) {
                continue;
            }
            try (JarFile jar = new JarFile(path)) {
                jar.stream().map(entry -> entry.getName())
                    .filter(name -> name.startsWith(folder) && name.endsWith(".class") && !name.matches(".*([$]|JsonConverter).*"))
                    .forEach(name -> names.put(name, name.replace(".class", "").replace('/', '.')));
            }
        }
        return new ArrayList<>(names.values());
    }

    private static String label(ApiMessage message, short version) {
        String name = message.getClass().getSimpleName();
        String kind = name.endsWith("RequestData") ? "request" : name.endsWith("ResponseData") ? "response" : null;
        return kind == null ? "- " + version + " " + name + " " : message.apiKey() + " " + version + " " + kind + " ";
    }

    private static byte[] bytes(Message message, short version) {
        ByteBufferAccessor written = MessageUtil.toByteBufferAccessor(message, version);
        ByteBuffer buffer = written.buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }

    private Message filled(Class<?> type, int depth) throws Exception {
        Message message = (Message) type.getDeclaredConstructor().newInstance();
        Schema schema = ((Schema[]) type.getField("SCHEMAS").get(null))[version];
        Map<String, Type> types = new TreeMap<>();
        for (BoundField field : schema.fields()) {
            if (field.def.type instanceof TaggedFields tagged) {
                if (full) {
                    tagged.fields().values().forEach(def -> types.put(plain(def.name), def.type));
                }
            } else {
                types.put(plain(field.def.name), field.def.type);
            }
        }
        for (Field field : type.getDeclaredFields()) {
            Type of = types.remove(plain(field.getName()));
            if (of != null && !Modifier.isStatic(field.getModifiers())) {
                field.setAccessible(true);
                field.set(message, value(field, of, depth));
            }
        }
        if (!types.isEmpty()) {
            throw new IllegalStateException(type + " has no fields for " + types.keySet());
        }
        return message;
    }

    private static String plain(String name) {
        return name.replace("_", "").toLowerCase();
    }

    private Object value(Field field, Type of, int depth) throws Exception {
        if (of.isNullable() && !full) {
            return null;
        }
        Class<?> type = field.getType();
        if (Collection.class.isAssignableFrom(type)) {
            return collection(field, depth);
        }
        return Message.class.isAssignableFrom(type) ? filled(type, depth + 1) : primitive(type, of.toString());
    }

    @SuppressWarnings("unchecked")
    private Object collection(Field field, int depth) throws Exception {
        boolean isList = field.getType() == List.class;
        Collection<Object> elements = isList
            ? new ArrayList<>()
            : (Collection<Object>) field.getType().getDeclaredConstructor(int.class).newInstance(4);
        java.lang.reflect.Type generic = isList ? field.getGenericType() : field.getType().getGenericSuperclass();
        Class<?> type = (Class<?>) ((ParameterizedType) generic).getActualTypeArguments()[0];
        int count = full ? (depth == 0 ? 2 : 1) : 0;
        for (int i = 0; i < count; i++) {
            elements.add(Message.class.isAssignableFrom(type) ? filled(type, depth + 1) : primitive(type, ""));
        }
        return elements;
    }

    private Object primitive(Class<?> type, String of) {
        long number = random.nextLong();
        if (type == boolean.class) return full;
        if (type == byte.class || type == Byte.class) return (byte) number;
        if (type == short.class || type == Short.class) return (short) number;
        if (type == int.class && of.equals("UINT16")) return (int) (number & 0xffff);
        if (type == int.class || type == Integer.class) return (int) number;
        if (type == long.class || type == Long.class) return number;
        if (type == double.class) return (double) number;
        if (type == Uuid.class) return new Uuid(number, random.nextLong());
        if (type == String.class) return full ? text(number) : "";
        byte[] bytes = full ? text(number).getBytes(StandardCharsets.UTF_8) : new byte[0];
        if (type == byte[].class) return bytes;
        if (type == ByteBuffer.class) return ByteBuffer.wrap(bytes);
        return MemoryRecords.readableRecords(ByteBuffer.wrap(bytes));
    }

    private static String text(long number) {
        return Long.toString(number & 0xffff, 36) + "ř".repeat((int) (number >>> 62));
    }
}
