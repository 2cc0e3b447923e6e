// A word count with Kafka Streams, at least once. Arguments: bootstrap, application, from, to, folder of its state.
// Says {"running": true} when it does, and {"stopped": true} after the first line on its standard input.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

public final class WordCount {
    public static void main(String[] args) throws Exception {
        var settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("application.id", args[1]);
        settings.put("state.dir", args[4]);
        settings.put("processing.guarantee", "at_least_once");
        settings.put("num.stream.threads", 2);
        settings.put("commit.interval.ms", 100);
        // Each change of a count is written, not the last of many.
        settings.put("statestore.cache.max.bytes", 0);
        settings.put("main.consumer.auto.offset.reset", "earliest");
        // An instance that stops leaves its partitions only when its session is over.
        settings.put("main.consumer.session.timeout.ms", 6000);
        settings.put("main.consumer.heartbeat.interval.ms", 500);
        var strings = Serdes.String();
        var builder = new StreamsBuilder();
        builder.stream(args[2], Consumed.with(strings, strings))
                .flatMapValues(line -> Arrays.asList(line.split(" ")))
                .groupBy((key, word) -> word, Grouped.with(strings, strings))
                .count(Materialized.as("counts"))
                .toStream()
                .to(args[3], Produced.with(strings, Serdes.Long()));
        var streams = new KafkaStreams(builder.build(), settings);
        var running = new CountDownLatch(1);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                running.countDown();
            }
        });
        streams.start();
        running.await();
        System.out.println("{\"running\": true}");
        new BufferedReader(new InputStreamReader(System.in)).readLine();
        streams.close();
        System.out.println("{\"stopped\": true}");
    }
}
