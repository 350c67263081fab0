import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyQueryMetadata;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;

/**
 * An application of a streams group: address, application id, topology, source, sink, state directory, settings.
 *
 * <p>A line on standard input asks: `state`, `hosts`, `holders STORE KEY`. The end of the input ends it.
 */
public final class Application {
    /** A record of the topology `map` that asks for the whole application to shut down. */
    private static final String END_OF_ALL = "end-of-all";

    public static void main(String[] arguments) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", arguments[0]);
        config.put("application.id", arguments[1]);
        config.put("state.dir", arguments[5]);
        config.put("group.protocol", "streams");
        config.put("default.key.serde", Serdes.StringSerde.class.getName());
        config.put("default.value.serde", Serdes.StringSerde.class.getName());
        config.put("commit.interval.ms", "100");
        config.put("statestore.cache.max.bytes", "0");
        config.put("auto.offset.reset", "earliest");
        for (int each = 6; each < arguments.length; each++) {
            String[] setting = arguments[each].split("=", 2);
            config.put(setting[0], setting[1]);
        }
        StreamsBuilder builder = new StreamsBuilder();
        make(builder, arguments[2], arguments[3], arguments[4]);
        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        streams.setUncaughtExceptionHandler(error -> {
            Throwable cause = error.getCause() == null ? error : error.getCause();
            if (END_OF_ALL.equals(cause.getMessage())) {
                return StreamThreadExceptionResponse.SHUTDOWN_APPLICATION;
            }
            System.out.println("failed " + cause.getClass().getSimpleName() + " " + cause.getMessage());
            System.out.flush();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            System.out.println(answer(streams, line));
            System.out.flush();
        }
        streams.close(Duration.ofSeconds(30));
    }

    private static String answer(KafkaStreams streams, String line) {
        if (line.equals("hosts")) {
            return "hosts " + streams.metadataForAllStreamsClients().stream()
                    .map(one -> one.port() + ":" + one.topicPartitions().size())
                    .sorted()
                    .collect(Collectors.joining(" "));
        }
        if (line.startsWith("holders ")) {
            String[] words = line.split(" ");
            KeyQueryMetadata found = streams.queryMetadataForKey(words[1], words[2], Serdes.String().serializer());
            return "holders " + found.activeHost().port() + " " + found.standbyHosts().stream()
                    .map(one -> String.valueOf(one.port()))
                    .sorted()
                    .collect(Collectors.joining(" "));
        }
        long active = streams.metadataForLocalThreads().stream().mapToLong(one -> one.activeTasks().size()).sum();
        long standby = streams.metadataForLocalThreads().stream().mapToLong(one -> one.standbyTasks().size()).sum();
        return "state " + streams.state() + " " + active + " " + standby;
    }

    private static String upper(String value) {
        if (value.equals(END_OF_ALL)) {
            throw new IllegalStateException(END_OF_ALL);
        }
        return value.toUpperCase();
    }

    private static void make(StreamsBuilder builder, String topology, String source, String sink) {
        KStream<String, String> records = builder.stream(source);
        switch (topology) {
            case "map":
                records.mapValues(Application::upper).to(sink);
                break;
            case "count":
                records.flatMapValues(line -> Arrays.asList(line.split(" ")))
                        .groupBy((key, word) -> word)
                        .count()
                        .toStream()
                        .map((word, count) -> new KeyValue<>(word, word + "=" + count))
                        .to(sink);
                break;
            case "join":
                KTable<String, String> table = builder.table(source + "-table");
                records.selectKey((key, value) -> value).join(table, (left, right) -> left + "+" + right).to(sink);
                break;
            default:
                throw new IllegalArgumentException(topology);
        }
    }
}
