import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.ControlRecordUtils;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Utils;

/**
 * Batches as Kafka's own client library writes and reads them.
 *
 * <pre>
 *   mvn -q compile exec:java -Dexec.args="write ../../../../tests/golden/records"
 *   cargo run -p vltava-records --example write_batches -- DIR
 *   mvn -q compile exec:java -Dexec.args="read DIR"
 * </pre>
 *
 * The sample records are those of core/records/tests/samples/mod.rs.
 */
public final class Golden {
    private static final long BASE_TIME = 1_700_000_000_000L;
    private static final String[] WORDS = {
        "river", "bridge", "water", "stone", "the", "of", "a", "flows",
        "under", "old", "city", "night", "boat", "slowly", "north", "weir"
    };

    private record Sample(long timestamp, byte[] key, byte[] value, Header[] headers) {}

    public static void main(String[] args) throws IOException {
        Path dir = Path.of(args[1]);
        if (args[0].equals("write")) {
            write(dir);
        } else {
            read(dir);
        }
    }

    private static void write(Path dir) throws IOException {
        Files.createDirectories(dir);
        writeSamples(dir, "none", Compression.NONE);
        writeSamples(dir, "gzip", Compression.gzip().build());
        writeSamples(dir, "gzip-1", Compression.gzip().level(1).build());
        writeSamples(dir, "snappy", Compression.snappy().build());
        writeSamples(dir, "lz4", Compression.lz4().build());
        writeSamples(dir, "lz4-17", Compression.lz4().level(17).build());
        writeSamples(dir, "zstd", Compression.zstd().build());
        writeSamples(dir, "zstd-22", Compression.zstd().level(22).build());
        writeControl(dir);
    }

    private static void writeSamples(Path dir, String name, Compression compression) throws IOException {
        boolean transactional = name.equals("zstd");
        var builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 20), RecordBatch.MAGIC_VALUE_V2, compression,
            TimestampType.CREATE_TIME, 0L, RecordBatch.NO_TIMESTAMP, 7L, (short) 3, 11, transactional,
            RecordBatch.NO_PARTITION_LEADER_EPOCH);
        for (Sample sample : samples()) {
            builder.append(sample.timestamp, sample.key, sample.value, sample.headers);
        }
        save(dir, name, builder.build());
    }

    private static void writeControl(Path dir) throws IOException {
        save(dir, "commit", MemoryRecords.withEndTransactionMarker(0L, BASE_TIME, RecordBatch.NO_PARTITION_LEADER_EPOCH,
            7L, (short) 3, new EndTransactionMarker(ControlRecordType.COMMIT, 5)));
        save(dir, "abort", MemoryRecords.withEndTransactionMarker(0L, BASE_TIME, RecordBatch.NO_PARTITION_LEADER_EPOCH,
            7L, (short) 3, new EndTransactionMarker(ControlRecordType.ABORT, 5)));
        var voter = new LeaderChangeMessage.Voter().setVoterId(1);
        var other = new LeaderChangeMessage.Voter().setVoterId(300);
        save(dir, "leader-change", MemoryRecords.withLeaderChangeMessage(0L, BASE_TIME, 9, ByteBuffer.allocate(256),
            new LeaderChangeMessage().setVersion(ControlRecordUtils.LEADER_CHANGE_CURRENT_VERSION).setLeaderId(1)
                .setVoters(List.of(voter, other)).setGrantingVoters(List.of(voter))));
    }

    private static void save(Path dir, String name, MemoryRecords records) throws IOException {
        Files.write(dir.resolve(name + ".bin"), Utils.toArray(records.buffer()));
    }

    private static void read(Path dir) throws IOException {
        List<Path> files;
        try (Stream<Path> found = Files.list(dir)) {
            files = found.filter(path -> path.toString().endsWith(".bin")).sorted().toList();
        }
        check(!files.isEmpty(), "no .bin files in " + dir);
        for (Path file : files) {
            MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(Files.readAllBytes(file)));
            check(records.sizeInBytes() == records.validBytes(), file + " is whole");
            for (MutableRecordBatch batch : records.batches()) {
                batch.ensureValid();
                if (batch.isControlBatch()) {
                    checkControl(batch);
                } else {
                    checkSamples(batch);
                }
                System.out.println(file.getFileName() + ": " + batch);
            }
        }
    }

    private static void checkSamples(RecordBatch batch) {
        List<Sample> expected = samples();
        check(batch.countOrNull() == expected.size(), "the count");
        check(batch.producerId() == 7 && batch.producerEpoch() == 3 && batch.baseSequence() == 11, "the producer");
        check(batch.maxTimestamp() == expected.stream().mapToLong(Sample::timestamp).max().getAsLong(), "max timestamp");
        int index = 0;
        for (Record record : batch) {
            Sample sample = expected.get(index);
            String where = "record " + index;
            check(record.offset() == batch.baseOffset() + index, where + " offset");
            check(record.timestamp() == sample.timestamp, where + " timestamp");
            check(Arrays.equals(Utils.toNullableArray(record.key()), sample.key), where + " key");
            check(Arrays.equals(Utils.toNullableArray(record.value()), sample.value), where + " value");
            check(Arrays.equals(record.headers(), sample.headers), where + " headers");
            index++;
        }
        check(index == expected.size(), "every record");
    }

    private static void checkControl(RecordBatch batch) {
        Record record = batch.iterator().next();
        switch (ControlRecordType.parse(record.key())) {
            case COMMIT, ABORT -> check(EndTransactionMarker.deserialize(record).coordinatorEpoch() == 5, "the marker");
            case LEADER_CHANGE -> {
                LeaderChangeMessage message = ControlRecordUtils.deserializeLeaderChangeMessage(record);
                check(message.leaderId() == 1 && message.voters().get(1).voterId() == 300
                    && message.grantingVoters().size() == 1, "the leader change");
            }
            default -> check(false, "a known control record");
        }
    }

    private static List<Sample> samples() {
        Header[] none = {};
        Header[] some = {
            new RecordHeader("trace", "0af7651916cd43dd".getBytes(StandardCharsets.UTF_8)),
            new RecordHeader("null", null),
            new RecordHeader("", new byte[0]),
        };
        return List.of(
            new Sample(BASE_TIME, null, null, none),
            new Sample(BASE_TIME + 1, new byte[] {'k'}, new byte[] {'v'}, none),
            new Sample(BASE_TIME - 5_000, new byte[0], new byte[0], some),
            new Sample(BASE_TIME + 86_400_000, text(20, 1), null, none),
            new Sample(BASE_TIME + 2, null, text(63, 2), some),
            new Sample(BASE_TIME + 2, text(64, 3), noise(64, 4), none),
            new Sample(BASE_TIME + 3, text(8, 5), noise(4_096, 6), none),
            new Sample(BASE_TIME + 4, text(8, 7), text(8_192, 8), none),
            new Sample(BASE_TIME + 5, text(8, 9), text(102_400, 10), some),
            new Sample(BASE_TIME + 6, text(8, 11), new byte[40_000], none));
    }

    private static int next(int seed) {
        return (seed * 1_103_515_245 + 12_345) & 0x7fff_ffff;
    }

    private static byte[] text(int size, int seed) {
        var out = new ByteArrayOutputStream();
        while (out.size() < size) {
            seed = next(seed);
            out.writeBytes((WORDS[seed >> 16 & 15] + " ").getBytes(StandardCharsets.UTF_8));
        }
        return Arrays.copyOf(out.toByteArray(), size);
    }

    private static byte[] noise(int size, int seed) {
        byte[] out = new byte[size];
        for (int i = 0; i < size; i++) {
            seed = next(seed);
            out[i] = (byte) (seed >> 16);
        }
        return out;
    }

    private static void check(boolean right, String what) {
        if (!right) {
            throw new AssertionError(what);
        }
    }
}
