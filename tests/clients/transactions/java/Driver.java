import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.NullNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Transactional producers, readers and copiers on command: one JSON line in, one JSON line out. */
public final class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration TIMEOUT = Duration.ofSeconds(60);
    private final String bootstrap;
    private final Map<String, KafkaProducer<String, String>> producers = new HashMap<>();
    private final Map<String, KafkaConsumer<String, String>> readers = new HashMap<>();
    private final Map<String, Copier> copiers = new HashMap<>();

    private Driver(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream output = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Driver driver = new Driver(arguments[0]);
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer.set("result", driver.run(JSON.readTree(line)));
            } catch (Exception error) {
                Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
                answer.put("error", cause.getClass().getSimpleName());
                answer.put("message", String.valueOf(cause.getMessage()));
            }
            output.println(answer);
        }
        System.exit(0);
    }

    private JsonNode run(JsonNode command) throws Exception {
        String name = command.get("name").asText();
        switch (command.get("op").asText()) {
            case "producer":
                producers.put(name, producer(bootstrap, command.get("id").asText(), command.get("timeout").asInt()));
                return NullNode.instance;
            case "begin":
                producers.get(name).beginTransaction();
                return NullNode.instance;
            case "send":
                send(producers.get(name), command.get("topic").asText(), command.get("partition").asInt(), command.get("values"));
                return NullNode.instance;
            case "offsets":
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                JsonNode wanted = command.get("offsets");
                for (Iterator<String> keys = wanted.fieldNames(); keys.hasNext(); ) {
                    String key = keys.next();
                    TopicPartition partition = new TopicPartition(command.get("topic").asText(), Integer.parseInt(key));
                    offsets.put(partition, new OffsetAndMetadata(wanted.get(key).asLong()));
                }
                ConsumerGroupMetadata group = metadata(command.get("group").asText());
                producers.get(name).sendOffsetsToTransaction(offsets, group);
                return NullNode.instance;
            case "commit":
                producers.get(name).commitTransaction();
                return NullNode.instance;
            case "abort":
                producers.get(name).abortTransaction();
                return NullNode.instance;
            case "close":
                producers.remove(name).close(Duration.ZERO);
                return NullNode.instance;
            case "reader":
                readers.put(name, reader(command));
                return NullNode.instance;
            case "read":
                return read(readers.get(name));
            case "close-reader":
                readers.remove(name).close();
                return NullNode.instance;
            case "copier":
                copiers.put(name, new Copier(command));
                return NullNode.instance;
            case "close-copier":
                copiers.remove(name).end();
                return NullNode.instance;
            default:
                throw new IllegalArgumentException(command.toString());
        }
    }

    static KafkaProducer<String, String> producer(String bootstrap, String id, int timeout) {
        Map<String, Object> config = Map.of("bootstrap.servers", bootstrap, "transactional.id", id, "transaction.timeout.ms", timeout);
        KafkaProducer<String, String> made = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
        made.initTransactions();
        return made;
    }

    static void send(KafkaProducer<String, String> producer, String topic, int partition, Iterable<JsonNode> values) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode value : values) {
            sent.add(producer.send(new ProducerRecord<>(topic, partition, null, value.asText())));
        }
        producer.flush();
        for (Future<RecordMetadata> each : sent) {
            each.get();
        }
    }

    /** A group without members: the one that Streams used before KIP-447. */
    private static ConsumerGroupMetadata metadata(String group) {
        return new ConsumerGroupMetadata(group);
    }

    private KafkaConsumer<String, String> reader(JsonNode command) {
        Map<String, Object> config = Map.of(
            "bootstrap.servers", bootstrap, "auto.offset.reset", "earliest", "fetch.max.wait.ms", 20,
            "isolation.level", command.get("committed").asBoolean() ? "read_committed" : "read_uncommitted");
        KafkaConsumer<String, String> made = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
        List<TopicPartition> partitions = new ArrayList<>();
        command.get("partitions").forEach(each -> partitions.add(new TopicPartition(command.get("topic").asText(), each.asInt())));
        made.assign(partitions);
        return made;
    }

    private static JsonNode read(KafkaConsumer<String, String> consumer) {
        ObjectNode found = JSON.createObjectNode();
        ArrayNode records = found.putArray("records");
        Map<TopicPartition, Long> ends = consumer.endOffsets(consumer.assignment());
        long deadline = System.nanoTime() + TIMEOUT.toNanos();
        while (ends.entrySet().stream().anyMatch(each -> consumer.position(each.getKey()) < each.getValue())) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("reading took too long");
            }
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                records.addArray().add(record.partition()).add(record.value());
            }
        }
        ObjectNode positions = found.putObject("positions");
        ends.keySet().forEach(each -> positions.put(String.valueOf(each.partition()), consumer.position(each)));
        return found;
    }

    /** A member with one producer, whose offsets are refused when its generation is over. */
    private final class Copier implements Runnable {
        private final String source;
        private final String target;
        private final String group;
        private final String id;
        private final Thread thread;
        private volatile boolean stopped;
        private volatile Exception failure;

        Copier(JsonNode command) {
            source = command.get("source").asText();
            target = command.get("target").asText();
            group = command.get("group").asText();
            id = command.get("id").asText();
            thread = new Thread(this, id);
            thread.start();
        }

        void end() throws Exception {
            stopped = true;
            thread.join(TIMEOUT.toMillis());
            if (failure != null) {
                throw failure;
            }
        }

        @Override
        public void run() {
            try (KafkaProducer<String, String> producer = producer(bootstrap, id, 60_000)) {
                while (!stopped) {
                    try (KafkaConsumer<String, String> consumer = member()) {
                        copyAs(consumer, producer);
                    }
                }
            } catch (Exception error) {
                failure = error;
            }
        }

        private KafkaConsumer<String, String> member() {
            Map<String, Object> config = Map.of(
                "bootstrap.servers", bootstrap, "group.id", group, "auto.offset.reset", "earliest",
                "enable.auto.commit", false, "max.poll.records", 10, "heartbeat.interval.ms", 200,
                "session.timeout.ms", 10_000, "fetch.max.wait.ms", 20);
            KafkaConsumer<String, String> made = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
            made.subscribe(List.of(source));
            return made;
        }

        private void copyAs(KafkaConsumer<String, String> consumer, KafkaProducer<String, String> producer) throws Exception {
            while (!stopped) {
                Map<TopicPartition, OffsetAndMetadata> behind = new HashMap<>();
                var polled = consumer.poll(Duration.ofMillis(100));
                if (polled.isEmpty()) {
                    continue;
                }
                producer.beginTransaction();
                try {
                    for (ConsumerRecord<String, String> record : polled) {
                        producer.send(new ProducerRecord<>(target, record.partition(), null, record.value()));
                        behind.put(new TopicPartition(source, record.partition()), new OffsetAndMetadata(record.offset() + 1));
                    }
                    producer.sendOffsetsToTransaction(behind, consumer.groupMetadata());
                    producer.commitTransaction();
                } catch (org.apache.kafka.common.errors.ProducerFencedException error) {
                    throw error;
                } catch (org.apache.kafka.common.KafkaException error) {
                    producer.abortTransaction();
                    return; // begins anew as another member
                }
            }
        }
    }
}
