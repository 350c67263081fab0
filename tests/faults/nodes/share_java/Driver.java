import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Members of one share group, each in a thread of its own, that accept all that they get; what was answered of each
 * record is kept, and whether it was given again afterwards.
 */
public final class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration POLL = Duration.ofMillis(300);
    /** What a member does with what it has, so that it has something when a node dies. */
    private static final long WORK_NANOS = 50_000_000;
    private static final Duration COMMIT = Duration.ofSeconds(5);
    private final String bootstrap;
    /** When its acceptance was answered without an error, by partition and offset. */
    private final Map<String, Long> accepted = new ConcurrentHashMap<>();
    /** Those of which an acceptance was sent. */
    private final Set<String> sent = ConcurrentHashMap.newKeySet();
    private final ConcurrentLinkedQueue<String> again = new ConcurrentLinkedQueue<>();
    private final ConcurrentLinkedQueue<String> failures = new ConcurrentLinkedQueue<>();
    private final Map<String, AtomicLong> errors = new ConcurrentHashMap<>();
    private final AtomicLong delivered = new AtomicLong();
    private final AtomicLong lateDelivered = new AtomicLong();
    private final List<Thread> members = new ArrayList<>();
    private volatile boolean ending;

    private Driver(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream output = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        Driver driver = new Driver(arguments[0]);
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer.set("result", driver.run(JSON.readTree(line)));
            } catch (Exception error) {
                Throwable cause = error.getCause() == null ? error : error.getCause();
                answer.put("error", cause.getClass().getSimpleName()).put("message", cause.getMessage());
            }
            output.println(answer);
        }
        Runtime.getRuntime().halt(0);
    }

    private JsonNode run(JsonNode command) throws Exception {
        switch (command.get("op").asText()) {
            case "configure" -> configure(command.get("group").asText(), command.get("configs"));
            case "start" -> {
                long margin = command.get("margin_ms").asLong() * 1_000_000;
                for (int number = 0; number < command.get("members").asInt(); number++) {
                    Thread member = new Thread(() -> member(
                            command.get("group").asText(), command.get("topic").asText(), margin), "member-" + number);
                    members.add(member);
                    member.start();
                }
            }
            case "status" -> {
                ObjectNode told = JSON.createObjectNode();
                told.put("accepted", accepted.size()).put("sent", sent.size());
                told.put("delivered", delivered.get()).put("late", lateDelivered.get());
                ObjectNode byKind = told.putObject("errors");
                errors.forEach((kind, count) -> byKind.put(kind, count.get()));
                put(told.putArray("again"), again);
                put(told.putArray("failures"), failures);
                return told;
            }
            case "stop" -> {
                ending = true;
                for (Thread member : members) {
                    member.join();
                }
            }
            case "sent" -> {
                ArrayNode told = JSON.createArrayNode();
                sent.forEach(told::add);
                return told;
            }
            default -> throw new IllegalArgumentException(command.toString());
        }
        return JSON.createObjectNode();
    }

    private static void put(ArrayNode into, ConcurrentLinkedQueue<String> from) {
        from.forEach(into::add);
    }

    private void configure(String group, JsonNode configs) throws Exception {
        List<AlterConfigOp> operations = new ArrayList<>();
        configs.fields().forEachRemaining(one -> operations.add(new AlterConfigOp(
                new ConfigEntry(one.getKey(), one.getValue().asText()), AlterConfigOp.OpType.SET)));
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.incrementalAlterConfigs(
                    Map.of(new ConfigResource(ConfigResource.Type.GROUP, group), operations)).all().get();
        }
    }

    private void member(String group, String topic, long margin) {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", bootstrap,
                "group.id", group,
                "max.poll.records", 100_000,
                "reconnect.backoff.max.ms", 500,
                "default.api.timeout.ms", 20_000);
        try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(
                settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(topic));
            long before = System.nanoTime();
            while (!ending) {
                ConsumerRecords<byte[], byte[]> found = consumer.poll(POLL);
                before = look(found, before, margin);
                if (!found.isEmpty()) {
                    accept(consumer, found);
                }
            }
        } catch (Exception error) {
            failures.add(Thread.currentThread().getName() + ": " + error);
        }
    }

    /** A poll takes all that has come: what it brings was acquired after the one before, but for what was on its way. */
    private long look(ConsumerRecords<byte[], byte[]> found, long before, long margin) {
        for (ConsumerRecord<byte[], byte[]> one : found) {
            delivered.incrementAndGet();
            Long answered = accepted.get(place(one));
            if (answered != null) {
                lateDelivered.incrementAndGet();
                if (answered + margin < before) {
                    again.add(place(one) + " after " + (System.nanoTime() - answered) / 1_000_000 + " ms");
                }
            }
        }
        return System.nanoTime();
    }

    private void accept(KafkaShareConsumer<byte[], byte[]> consumer, ConsumerRecords<byte[], byte[]> found) {
        for (ConsumerRecord<byte[], byte[]> one : found) {
            sent.add(place(one));
        }
        LockSupport.parkNanos(WORK_NANOS);
        Map<TopicIdPartition, Optional<KafkaException>> answers;
        try {
            answers = consumer.commitSync(COMMIT);
        } catch (KafkaException error) {
            note(error);
            return;
        }
        long now = System.nanoTime();
        answers.forEach((partition, error) -> {
            error.ifPresent(this::note);
            if (error.isEmpty()) {
                for (ConsumerRecord<byte[], byte[]> one : found.records(partition.topicPartition())) {
                    accepted.putIfAbsent(place(one), now);
                }
            }
        });
    }

    private void note(Exception error) {
        errors.computeIfAbsent(error.getClass().getSimpleName(), kind -> new AtomicLong()).incrementAndGet();
    }

    private static String place(ConsumerRecord<byte[], byte[]> one) {
        return one.partition() + "-" + one.offset();
    }
}
