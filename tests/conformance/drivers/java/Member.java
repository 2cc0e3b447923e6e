// A member of a group. A consumer wants one thread: it polls, and does what is asked between two polls.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

final class Member implements ConsumerRebalanceListener {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final long PATIENCE_S = 90;
    private static final Map<String, String> ASSIGNORS = Map.of(
            "range", "org.apache.kafka.clients.consumer.RangeAssignor",
            "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    private final String topic;
    private final SubscriptionPattern pattern;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final Queue<FutureTask<Void>> asked = new ConcurrentLinkedQueue<>();
    private final Thread thread = new Thread(this::run, "member");
    private boolean isOver;
    // Guarded by this.
    private final ArrayNode events = new ObjectMapper().createArrayNode();
    private final ArrayNode records = new ObjectMapper().createArrayNode();
    private Exception error;

    Member(Map<String, Object> base, JsonNode command) {
        topic = command.get("topic").asText();
        pattern = command.hasNonNull("pattern") ? new SubscriptionPattern(command.get("pattern").asText()) : null;
        var bytes = new ByteArrayDeserializer();
        consumer = new KafkaConsumer<>(settings(base, command), bytes, bytes);
        thread.setDaemon(true);
        thread.start();
    }

    private static Map<String, Object> settings(Map<String, Object> base, JsonNode command) {
        Map<String, Object> settings = new HashMap<>(base);
        String protocol = command.get("protocol").asText();
        String assignor = command.get("assignor").asText();
        settings.put("group.id", command.get("group").asText());
        settings.put("group.protocol", protocol);
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", command.get("reset").asText());
        settings.put("fetch.max.wait.ms", 100);
        if (protocol.equals("classic")) {
            settings.put("partition.assignment.strategy", ASSIGNORS.get(assignor));
            settings.put("session.timeout.ms", command.get("session_ms").asInt());
            settings.put("heartbeat.interval.ms", command.get("heartbeat_ms").asInt());
        } else {
            settings.put("group.remote.assignor", assignor);
        }
        if (command.hasNonNull("instance")) {
            settings.put("group.instance.id", command.get("instance").asText());
        }
        return settings;
    }

    private void run() {
        try {
            if (pattern == null) {
                consumer.subscribe(List.of(topic), this);
            } else {
                consumer.subscribe(pattern, this);
            }
            while (!isOver) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
                    read(record);
                }
                for (FutureTask<Void> task = asked.poll(); task != null; task = asked.poll()) {
                    task.run();
                }
            }
        } catch (Exception e) {
            synchronized (this) {
                error = e;
            }
            asked.forEach(task -> task.cancel(false));
        }
    }

    private synchronized void read(ConsumerRecord<byte[], byte[]> record) {
        records.addObject().put("partition", record.partition()).put("offset", record.offset());
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        tell("assigned", partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        tell("revoked", partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        tell("lost", partitions);
    }

    private synchronized void tell(String what, Collection<TopicPartition> partitions) {
        ArrayNode told = events.addObject().putArray(what);
        partitions.stream().mapToInt(TopicPartition::partition).sorted().forEach(told::add);
    }

    synchronized void answer(ObjectNode answer) throws Exception {
        if (error != null) {
            throw error;
        }
        answer.set("events", events.deepCopy());
        answer.set("records", records.deepCopy());
    }

    void commit(JsonNode offsets) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> at = new HashMap<>();
        for (int i = 0; i < offsets.size(); i++) {
            if (!offsets.get(i).isNull()) {
                at.put(new TopicPartition(topic, i), new OffsetAndMetadata(offsets.get(i).asLong()));
            }
        }
        ask(() -> consumer.commitSync(at));
    }

    void leave() throws Exception {
        ask(() -> {
            isOver = true;
            consumer.close();
        });
    }

    private void ask(Runnable what) throws Exception {
        synchronized (this) {
            if (error != null) {
                throw error; // nobody would run it
            }
        }
        var task = new FutureTask<Void>(what, null);
        asked.add(task);
        task.get(PATIENCE_S, TimeUnit.SECONDS);
    }
}
