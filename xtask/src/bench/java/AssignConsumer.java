import java.time.Duration;
import java.text.SimpleDateFormat;
import java.util.ArrayList;
import java.util.Date;
import java.util.List;
import java.util.Locale;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads all partitions of a topic from their beginning, without a group.
 *
 * Settings, poll and line of result are those of Kafka's ConsumerPerformance, which can only subscribe:
 * so its joining of a group is missing here, and rebalance.time.ms is always 0.
 */
public final class AssignConsumer {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final long SILENCE_MS_MAX = 10_000;
    private static final double MIB = 1024.0 * 1024.0;

    private AssignConsumer() {}

    public static void main(String[] args) {
        if (args.length != 3) {
            System.err.println("usage: AssignConsumer BOOTSTRAP-SERVER TOPIC NUM-RECORDS");
            System.exit(2);
        }
        long wanted = Long.parseLong(args[2]);
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings(args[0]))) {
            long started = System.currentTimeMillis();
            List<TopicPartition> partitions = new ArrayList<>();
            for (PartitionInfo partition : consumer.partitionsFor(args[1])) {
                partitions.add(new TopicPartition(partition.topic(), partition.partition()));
            }
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            if (!read(consumer, wanted, started)) {
                System.exit(1);
            }
        }
    }

    private static Properties settings(String bootstrapServer) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrapServer);
        settings.put("receive.buffer.bytes", "2097152");
        settings.put("max.partition.fetch.bytes", "1048576");
        settings.put("key.deserializer", ByteArrayDeserializer.class);
        settings.put("value.deserializer", ByteArrayDeserializer.class);
        settings.put("check.crcs", "false");
        settings.put("enable.auto.commit", "false");
        settings.put("client.id", "perf-consumer-client");
        return settings;
    }

    private static boolean read(KafkaConsumer<byte[], byte[]> consumer, long wanted, long started) {
        long[] next = new long[consumer.assignment().size()];
        long records = 0;
        long bytes = 0;
        long now = System.currentTimeMillis();
        long heardOf = now;
        while (records < wanted && now - heardOf <= SILENCE_MS_MAX) {
            ConsumerRecords<byte[], byte[]> polled = consumer.poll(POLL);
            now = System.currentTimeMillis();
            if (!polled.isEmpty()) {
                heardOf = now;
            }
            for (ConsumerRecord<byte[], byte[]> record : polled) {
                // Every partition is read from its beginning, 0, so a gap is a record that is lost.
                if (record.offset() != next[record.partition()]++) {
                    System.err.println("partition " + record.partition() + " goes on at " + record.offset());
                    return false;
                }
                records++;
                bytes += record.key() == null ? 0 : record.key().length;
                bytes += record.value() == null ? 0 : record.value().length;
            }
        }
        print(records, bytes, started, System.currentTimeMillis());
        if (records > wanted) {
            System.err.println(records + " records came of " + wanted);
            return false;
        }
        if (records < wanted) {
            System.err.println("only " + records + " of " + wanted + " records came");
        }
        return records >= wanted;
    }

    private static void print(long records, long bytes, long started, long ended) {
        SimpleDateFormat time = new SimpleDateFormat("yyyy-MM-dd HH:mm:ss:SSS");
        double seconds = (ended - started) / 1000.0;
        double mib = bytes / MIB;
        System.out.println("start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec,"
            + " rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec");
        System.out.println(String.format(Locale.ROOT, "%s, %s, %.4f, %.4f, %d, %.4f, %d, %d, %.4f, %.4f",
            time.format(new Date(started)), time.format(new Date(ended)), mib, mib / seconds,
            records, records / seconds, 0, ended - started, mib / seconds, records / seconds));
    }
}
