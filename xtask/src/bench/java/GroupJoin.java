import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Groups of one consumer, one after the other: how long from subscribe to the first record.
 *
 * The first does not count: for it the broker makes what it keeps groups in, and this process loads its classes.
 * Settings are the defaults, but where a group without offsets begins.
 */
public final class GroupJoin {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final long PATIENCE_MS = 60_000;

    private GroupJoin() {}

    public static void main(String[] args) {
        if (args.length != 4) {
            System.err.println("usage: GroupJoin BOOTSTRAP-SERVER TOPIC classic|consumer TIMES");
            System.exit(2);
        }
        List<String> all = new ArrayList<>();
        for (int number = 0; number <= Integer.parseInt(args[3]); number++) {
            double took = once(args[0], args[1], args[2], number);
            if (took < 0) {
                System.err.println("no record came for a minute");
                System.exit(1);
            }
            if (number > 0) {
                all.add(String.format(Locale.ROOT, "%.3f", took));
            }
        }
        System.out.println("{\"ms\":[" + String.join(",", all) + "]}");
    }

    private static double once(String bootstrapServer, String topic, String protocol, int number) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrapServer);
        settings.put("group.id", "java-" + protocol + "-" + number);
        settings.put("group.protocol", protocol);
        settings.put("auto.offset.reset", "earliest");
        settings.put("key.deserializer", ByteArrayDeserializer.class);
        settings.put("value.deserializer", ByteArrayDeserializer.class);
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            long since = System.nanoTime();
            consumer.subscribe(List.of(topic));
            while (consumer.poll(POLL).isEmpty()) {
                if ((System.nanoTime() - since) / 1_000_000 > PATIENCE_MS) {
                    return -1;
                }
            }
            return (System.nanoTime() - since) / 1e6;
        }
    }
}
