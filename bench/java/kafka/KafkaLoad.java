import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.tools.ConsumerPerformance;
import org.apache.kafka.tools.ProducerPerformance;

/** Kafka's own performance tools, and a producer at a fixed rate whose latencies are finer than the tool's. */
final class KafkaLoad {
    private static final Duration POLL = Duration.ofMillis(100);

    private interface Tool {
        void main(String[] arguments) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = Load.takeOutput();
        Exit.setExitProcedure((status, message) -> {
            throw new IllegalStateException("the tool ended with " + status + ": " + message);
        });
        Load.serve(answers, Map.of(
            "produce", command -> run(ProducerPerformance::main, command),
            "consume", command -> run(ConsumerPerformance::main, command),
            "latency", KafkaLoad::latency,
            "end_to_end", KafkaLoad::endToEnd,
            "singles", RawProducers::run,
            "create", KafkaLoad::create));
    }

    /** Run a tool as its command would; what it printed. */
    private static String run(Tool tool, JsonNode command) throws Exception {
        List<String> arguments = new ArrayList<>();
        command.get("arguments").forEach(one -> arguments.add(one.asText()));
        PrintStream standard = System.out;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        System.setOut(new PrintStream(printed, true));
        try {
            tool.main(arguments.toArray(new String[0]));
        } finally {
            System.setOut(standard);
        }
        return printed.toString();
    }

    private static Object latency(JsonNode command) throws Exception {
        String topic = command.get("topic").asText();
        try (var producer = producer(command)) {
            return Load.paced(command, (payload, done) -> producer.send(new ProducerRecord<>(topic, payload), (stored, error) -> {
                if (error == null) {
                    done.run();
                }
            }));
        }
    }

    private static KafkaProducer<byte[], byte[]> producer(JsonNode command) {
        Properties settings = new Properties();
        command.get("settings").fields().forEachRemaining(one -> settings.put(one.getKey(), one.getValue().asText()));
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    /** From `send` to `poll`; with a request to `fetch` by, to consumers that are sockets alone. */
    private static Object endToEnd(JsonNode command) throws Exception {
        Deliveries deliveries = new Deliveries(command);
        String topic = command.get("topic").asText();
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", command.get("bootstrap").asText(), "enable.auto.commit", "false");
        try (var producer = producer(command);
                var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> partitions = IntStream.range(0, deliveries.partitions)
                .mapToObj(partition -> new TopicPartition(topic, partition)).toList();
            consumer.assign(partitions);
            consumer.seekToEnd(partitions);
            long[] begin = partitions.stream().mapToLong(consumer::position).toArray();
            producer.partitionsFor(topic);
            try (AutoCloseable consumers = command.has("fetch")
                    ? new RawConsumers(command, begin, deliveries) : polling(consumer, begin, deliveries)) {
                return deliveries.run((partition, payload) ->
                    producer.send(new ProducerRecord<>(topic, partition, null, payload), (stored, error) -> {
                        if (error != null) {
                            deliveries.fail(error);
                        }
                    }));
            }
        }
    }

    /** Polls on a thread of its own until everything has come. */
    private static AutoCloseable polling(KafkaConsumer<byte[], byte[]> consumer, long[] begin, Deliveries deliveries) {
        AtomicBoolean closed = new AtomicBoolean();
        Thread thread = new Thread(() -> {
            try {
                while (!closed.get()) {
                    ConsumerRecords<byte[], byte[]> records = consumer.poll(POLL);
                    long now = System.nanoTime();
                    for (TopicPartition partition : records.partitions()) {
                        List<ConsumerRecord<byte[], byte[]>> some = records.records(partition);
                        long base = begin[partition.partition()];
                        deliveries.arrived(0, partition.partition(),
                            some.get(0).offset() - base, some.get(some.size() - 1).offset() + 1 - base, now);
                    }
                }
            } catch (Throwable error) {
                deliveries.fail(error);
            }
        }, "consumer");
        thread.start();
        return () -> {
            closed.set(true);
            thread.join();
        };
    }

    private static Object create(JsonNode command) throws Exception {
        NewTopic topic = new NewTopic(command.get("topic").asText(), command.get("partitions").asInt(), (short) 1);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", command.get("bootstrap").asText()))) {
            admin.createTopics(List.of(topic)).all().get();
        }
        return true;
    }
}
