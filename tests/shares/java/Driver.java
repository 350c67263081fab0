import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Members of share groups on command: one JSON line in, one JSON line out. */
public final class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private final String bootstrap;
    private final Admin admin;
    private final Map<String, KafkaShareConsumer<String, String>> consumers = new HashMap<>();
    private final Map<String, Map<Long, ConsumerRecord<String, String>>> polled = new HashMap<>();

    private Driver(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
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
        String member = command.path("member_id").asText();
        switch (command.get("op").asText()) {
            case "create" -> admin.createTopics(List.of(
                    new NewTopic(command.get("topic").asText(), command.get("partitions").asInt(), (short) 1))).all().get();
            case "configure" -> configure(command.get("group").asText(), command.get("configs"));
            case "produce" -> produce(command);
            case "join" -> join(member, command);
            case "poll" -> {
                return poll(member, Duration.ofMillis(command.get("ms").asLong()));
            }
            case "acknowledge" -> consumers.get(member).acknowledge(
                    polled.get(member).get(command.get("offset").asLong()),
                    AcknowledgeType.valueOf(command.get("type").asText()));
            case "commit" -> {
                return commit(member);
            }
            case "lock" -> {
                return lock(member);
            }
            case "close" -> consumers.remove(member).close(Duration.ofSeconds(20));
            default -> throw new IllegalArgumentException(command.toString());
        }
        return JSON.createObjectNode();
    }

    private void configure(String group, JsonNode configs) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
        List<AlterConfigOp> operations = new java.util.ArrayList<>();
        configs.fields().forEachRemaining(one -> operations.add(new AlterConfigOp(
                new ConfigEntry(one.getKey(), one.getValue().asText()), AlterConfigOp.OpType.SET)));
        admin.incrementalAlterConfigs(Map.of(resource, operations)).all().get();
    }

    private void produce(JsonNode command) throws Exception {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", bootstrap));
        String end = command.path("end").asText("");
        if (!end.isEmpty()) {
            settings.put("transactional.id", command.get("topic").asText() + end);
        }
        if (command.path("one_each").asBoolean()) {
            settings.put("batch.size", 0);
        } else {
            settings.put("linger.ms", 1000);
        }
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            if (!end.isEmpty()) {
                producer.initTransactions();
                producer.beginTransaction();
            }
            for (JsonNode value : command.get("values")) {
                producer.send(new ProducerRecord<>(command.get("topic").asText(), 0, null, value.asText()));
            }
            producer.flush();
            if (end.equals("commit")) {
                producer.commitTransaction();
            } else if (end.equals("abort")) {
                producer.abortTransaction();
            }
        }
    }

    private void join(String member, JsonNode command) {
        Map<String, Object> settings = new HashMap<>(Map.of(
                "bootstrap.servers", bootstrap,
                "group.id", command.get("group").asText(),
                "share.acknowledgement.mode", command.get("mode").asText()));
        command.path("settings").fields().forEachRemaining(one -> settings.put(one.getKey(), one.getValue().asText()));
        KafkaShareConsumer<String, String> consumer =
                new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(command.get("topic").asText()));
        consumers.put(member, consumer);
    }

    private JsonNode poll(String member, Duration duration) {
        ConsumerRecords<String, String> found = consumers.get(member).poll(duration);
        Map<Long, ConsumerRecord<String, String>> byOffset = new HashMap<>();
        ArrayNode told = JSON.createArrayNode();
        for (ConsumerRecord<String, String> record : found) {
            byOffset.put(record.offset(), record);
            told.addArray().add(record.offset()).add(record.value()).add(record.deliveryCount().orElse((short) 0));
        }
        polled.put(member, byOffset);
        return told;
    }

    private JsonNode commit(String member) {
        ArrayNode errors = JSON.createArrayNode();
        for (Map.Entry<TopicIdPartition, Optional<KafkaException>> one : consumers.get(member).commitSync().entrySet()) {
            one.getValue().ifPresent(error -> errors.add(error.getClass().getSimpleName()));
        }
        return errors;
    }

    /** For how long records are the member's, in ms; consumers of Kafka 4.1 do not tell it. */
    private JsonNode lock(String member) throws Exception {
        Object told = KafkaShareConsumer.class.getMethod("acquisitionLockTimeoutMs").invoke(consumers.get(member));
        return JSON.getNodeFactory().numberNode((Integer) ((Optional<?>) told).orElseThrow());
    }
}
