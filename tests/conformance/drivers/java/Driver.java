// The Java client, kafka-clients. Speaks ../PROTOCOL.md.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.function.IntFunction;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();
    private static final long PATIENCE_MS = 90_000;
    private static final int FETCH_BYTES_MAX = 4 << 20;

    private final Map<String, Object> base;
    private Member member;

    private Driver(String bootstrap, String clientId) {
        base = Map.of("bootstrap.servers", bootstrap, "client.id", clientId);
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err); // a library that prints must not write into the protocol
        Driver driver = new Driver(args[0], args[1]);
        out.println(JSON.createObjectNode().put("ready", "kafka-clients " + version()));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                driver.run(JSON.readTree(line), answer);
            } catch (Exception e) {
                Throwable cause = e instanceof ExecutionException ? e.getCause() : e;
                answer = JSON.createObjectNode().put("error", cause.toString());
            }
            out.println(answer);
            out.flush();
        }
        System.exit(0);
    }

    private static String version() throws Exception {
        Properties built = new Properties();
        built.load(KafkaProducer.class.getResourceAsStream("/kafka/kafka-version.properties"));
        return built.getProperty("version");
    }

    private void run(JsonNode command, ObjectNode answer) throws Exception {
        switch (command.get("op").asText()) {
            case "create" -> create(command);
            case "metadata" -> metadata(command, answer);
            case "produce" -> produce(command, answer);
            case "produce_many" -> produceMany(command, answer);
            case "place" -> place(command, answer);
            case "transactions" -> transactions(command);
            case "consume" -> consume(command, answer);
            case "consume_many" -> consumeMany(command, answer);
            case "offset_for_time" -> offsetForTime(command, answer);
            case "offsets" -> offsets(command, answer);
            case "join" -> member = new Member(base, command);
            case "member" -> member.answer(answer);
            case "commit" -> member.commit(command.get("offsets"));
            case "committed" -> committed(command, answer);
            case "leave" -> member.leave();
            default -> throw new IllegalArgumentException("unknown op");
        }
    }

    private void create(JsonNode command) throws Exception {
        Map<String, String> configs = new HashMap<>();
        command.get("configs").properties().forEach(e -> configs.put(e.getKey(), e.getValue().asText()));
        NewTopic topic = new NewTopic(command.get("topic").asText(), command.get("partitions").asInt(), (short) -1);
        try (Admin admin = Admin.create(base)) {
            admin.createTopics(List.of(topic.configs(configs))).all().get();
        }
    }

    private void metadata(JsonNode command, ObjectNode answer) throws Exception {
        String topic = command.get("topic").asText();
        try (Admin admin = Admin.create(base)) {
            var found = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
            answer.put("partitions", found.partitions().size());
        }
    }

    private void produce(JsonNode command, ObjectNode answer) throws Exception {
        JsonNode records = command.get("records");
        var offsets = answer.putArray("offsets");
        for (Long offset : send(command, records.size(), i -> spelled(command, records.get(i)))) {
            offsets.add(offset);
        }
    }

    private void produceMany(JsonNode command, ObjectNode answer) throws Exception {
        List<Long> offsets = send(command, command.get("count").asInt(), i -> generated(command, i));
        answer.put("first", offsets.get(0)).put("last", offsets.get(offsets.size() - 1));
    }

    private List<Long> send(JsonNode command, int count, IntFunction<ProducerRecord<byte[], byte[]>> record)
            throws Exception {
        Map<String, Object> settings = new HashMap<>(base);
        settings.put("acks", command.get("acks").asText());
        settings.put("enable.idempotence", command.get("idempotent").asBoolean());
        settings.put("compression.type", command.get("compression").asText());
        if (command.hasNonNull("batch_bytes_max")) {
            settings.put("max.request.size", command.get("batch_bytes_max").asInt());
        }
        var bytes = new ByteArraySerializer();
        List<Long> offsets = new ArrayList<>(count);
        try (var producer = new KafkaProducer<byte[], byte[]>(settings, bytes, bytes)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>(count);
            for (int i = 0; i < count; i++) {
                sent.add(producer.send(record.apply(i)));
            }
            producer.flush();
            for (Future<RecordMetadata> future : sent) {
                RecordMetadata stored = future.get();
                offsets.add(stored.hasOffset() ? stored.offset() : null);
            }
        }
        return offsets;
    }

    private void place(JsonNode command, ObjectNode answer) throws Exception {
        String topic = command.get("topic").asText();
        var bytes = new ByteArraySerializer();
        try (var producer = new KafkaProducer<byte[], byte[]>(base, bytes, bytes)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (JsonNode key : command.get("keys")) {
                sent.add(producer.send(new ProducerRecord<>(topic, bytes(key), null)));
            }
            var partitions = answer.putArray("partitions");
            for (Future<RecordMetadata> future : sent) {
                partitions.add(future.get().partition());
            }
        }
    }

    /// All begin, their records come by turns, and they end in their order.
    private void transactions(JsonNode command) throws Exception {
        var bytes = new ByteArraySerializer();
        List<KafkaProducer<byte[], byte[]>> producers = new ArrayList<>();
        try {
            for (JsonNode transaction : command.get("transactions")) {
                Map<String, Object> settings = new HashMap<>(base);
                settings.put("transactional.id", command.get("topic").asText() + "-" + producers.size());
                settings.put("compression.type", command.get("compression").asText());
                var producer = new KafkaProducer<byte[], byte[]>(settings, bytes, bytes);
                producers.add(producer);
                producer.initTransactions();
                producer.beginTransaction();
            }
            boolean more = true;
            for (int turn = 0; more; turn++) {
                more = false;
                for (int i = 0; i < producers.size(); i++) {
                    JsonNode records = command.get("transactions").get(i).get("records");
                    if (turn < records.size()) {
                        producers.get(i).send(spelled(command, records.get(turn))).get();
                        more = true;
                    }
                }
            }
            for (int i = 0; i < producers.size(); i++) {
                if (command.get("transactions").get(i).get("commit").asBoolean()) {
                    producers.get(i).commitTransaction();
                } else {
                    producers.get(i).abortTransaction();
                }
            }
        } finally {
            producers.forEach(KafkaProducer::close);
        }
    }

    private static ProducerRecord<byte[], byte[]> spelled(JsonNode command, JsonNode record) {
        JsonNode timestamp = record.get("timestamp");
        var made = new ProducerRecord<byte[], byte[]>(
                command.get("topic").asText(),
                command.get("partition").asInt(),
                timestamp.isNull() ? null : timestamp.asLong(),
                bytes(record.get("key")),
                bytes(record.get("value")));
        for (JsonNode header : record.get("headers")) {
            made.headers().add(header.get(0).asText(), bytes(header.get(1)));
        }
        return made;
    }

    private static ProducerRecord<byte[], byte[]> generated(JsonNode command, int index) {
        JsonNode sizes = command.get("sizes");
        JsonNode timestamp = command.get("timestamp");
        return new ProducerRecord<>(
                command.get("topic").asText(),
                command.get("partition").asInt(),
                timestamp.isNull() ? null : timestamp.asLong() + index,
                Integer.toString(index).getBytes(StandardCharsets.US_ASCII),
                payload(command.get("seed").asLong(), index, sizes.get(index % sizes.size()).asInt()));
    }

    private static byte[] payload(long seed, int index, int size) {
        MessageDigest sha = sha256();
        StringBuilder text = new StringBuilder(size + 64);
        for (int block = 0; text.length() < size; block++) {
            String name = seed + "/" + index + "/" + block;
            text.append(HEX.formatHex(sha.digest(name.getBytes(StandardCharsets.US_ASCII)), 0, 16));
            text.append(".".repeat(32));
        }
        return text.substring(0, size).getBytes(StandardCharsets.US_ASCII);
    }

    private KafkaConsumer<byte[], byte[]> reader() {
        return reader("read_uncommitted");
    }

    private KafkaConsumer<byte[], byte[]> reader(String isolation) {
        Map<String, Object> settings = new HashMap<>(base);
        settings.put("isolation.level", isolation);
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", "none");
        settings.put("max.partition.fetch.bytes", FETCH_BYTES_MAX);
        settings.put("fetch.max.wait.ms", 100);
        settings.put("max.poll.records", 10_000);
        var bytes = new ByteArrayDeserializer();
        return new KafkaConsumer<>(settings, bytes, bytes);
    }

    private static TopicPartition partition(JsonNode command) {
        return new TopicPartition(command.get("topic").asText(), command.get("partition").asInt());
    }

    private List<ConsumerRecord<byte[], byte[]>> read(JsonNode command) {
        TopicPartition partition = partition(command);
        int count = command.get("count").asInt();
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>(count);
        try (var consumer = reader(command.path("isolation").asText("read_uncommitted"))) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, command.hasNonNull("offset")
                    ? command.get("offset").asLong()
                    : forTime(consumer, command).offset());
            long deadline = System.currentTimeMillis() + PATIENCE_MS;
            while (records.size() < count && System.currentTimeMillis() < deadline) {
                records.addAll(consumer.poll(Duration.ofSeconds(1)).records(partition));
            }
        }
        return records.subList(0, Math.min(count, records.size()));
    }

    private void consume(JsonNode command, ObjectNode answer) {
        var records = answer.putArray("records");
        for (var record : read(command)) {
            var made = records.addObject().put("offset", record.offset()).put("timestamp", record.timestamp());
            made.put("key", hex(record.key())).put("value", hex(record.value()));
            var headers = made.putArray("headers");
            for (Header header : record.headers()) {
                headers.addArray().add(header.key()).add(hex(header.value()));
            }
        }
    }

    private void consumeMany(JsonNode command, ObjectNode answer) {
        var records = read(command);
        MessageDigest sha = sha256();
        for (var record : records) {
            sha.update(ByteBuffer.allocate(8).putLong(record.offset()).array());
            for (byte[] part : new byte[][] {record.key(), record.value()}) {
                sha.update(ByteBuffer.allocate(4).putInt(part == null ? -1 : part.length).array());
                sha.update(part == null ? new byte[0] : part);
            }
        }
        if (!records.isEmpty()) {
            answer.put("first", records.get(0).offset()).put("last", records.get(records.size() - 1).offset());
        }
        answer.put("count", records.size()).put("digest", HEX.formatHex(sha.digest()));
    }

    private static OffsetAndTimestamp forTime(KafkaConsumer<byte[], byte[]> consumer, JsonNode command) {
        TopicPartition partition = partition(command);
        return consumer.offsetsForTimes(Map.of(partition, command.get("timestamp").asLong())).get(partition);
    }

    private void offsetForTime(JsonNode command, ObjectNode answer) {
        try (var consumer = reader()) {
            OffsetAndTimestamp found = forTime(consumer, command);
            answer.put("offset", found == null ? null : found.offset());
        }
    }

    private void offsets(JsonNode command, ObjectNode answer) {
        TopicPartition partition = partition(command);
        try (var consumer = reader()) {
            answer.put("start", consumer.beginningOffsets(List.of(partition)).get(partition));
            answer.put("end", consumer.endOffsets(List.of(partition)).get(partition));
        }
    }

    private void committed(JsonNode command, ObjectNode answer) throws Exception {
        String group = command.get("group").asText();
        var offsets = answer.putArray("offsets");
        try (Admin admin = Admin.create(base)) {
            var found = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
            for (int i = 0; i < command.get("partitions").asInt(); i++) {
                OffsetAndMetadata at = found.get(new TopicPartition(command.get("topic").asText(), i));
                offsets.add(at == null ? null : at.offset());
            }
        }
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : HEX.parseHex(text.asText());
    }

    private static String hex(byte[] data) {
        return data == null ? null : HEX.formatHex(data);
    }

    private static MessageDigest sha256() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (java.security.NoSuchAlgorithmException e) {
            throw new IllegalStateException(e); // every Java has it
        }
    }
}
