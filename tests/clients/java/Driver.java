import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.StreamReadConstraints;
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
import java.util.Base64;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Produces and consumes on command: one JSON line in, one JSON line out, bytes as base64. */
public final class Driver {
    private static final int LONGEST = 1 << 28;
    private static final ObjectMapper JSON = new ObjectMapper(JsonFactory.builder()
            .streamReadConstraints(StreamReadConstraints.builder().maxStringLength(LONGEST).build()).build());
    private static final Duration TIMEOUT = Duration.ofSeconds(60);
    private final String bootstrap;
    private static final PrintStream OUTPUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private final Admin admin;
    private final Members members;
    private final Administration administration;

    private Driver(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
        this.members = new Members(bootstrap);
        this.administration = new Administration(bootstrap, admin);
    }

    /** Answers and events share the output, each a line. */
    static synchronized void print(ObjectNode line) {
        OUTPUT.println(line);
    }

    public static void main(String[] arguments) throws Exception {
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
                if (cause instanceof ApiException) {
                    answer.put("code", Errors.forException(cause).code());
                }
            }
            print(answer);
        }
        driver.members.close();
        driver.admin.close(TIMEOUT);
    }

    private JsonNode run(JsonNode command) throws Exception {
        String topic = command.path("topic").asText();
        String operation = command.get("op").asText();
        if (operation.startsWith("member-")) {
            return members.run(operation, command);
        }
        switch (operation) {
            case "create":
                NewTopic wanted = new NewTopic(topic, Optional.of(command.get("partitions").asInt()), Optional.empty());
                admin.createTopics(List.of(wanted)).all().get();
                return JSON.nullNode();
            case "delete":
                admin.deleteTopics(List.of(topic)).all().get();
                return JSON.nullNode();
            case "list":
                return JSON.valueToTree(admin.listTopics().names().get());
            case "describe":
                int count = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
                return JSON.valueToTree(count);
            case "write":
                return write(topic, command.get("codec").asText(), command.get("records"), command.path("config"));
            case "read":
                return read(topic, command.get("starts"));
            case "ends":
                return ends(new TopicPartition(topic, command.get("partition").asInt()));
            case "time":
                return time(new TopicPartition(topic, command.get("partition").asInt()), command.get("timestamp").asLong());
            default:
                return administration.run(operation, command);
        }
    }

    private JsonNode write(String topic, String codec, JsonNode records, JsonNode more) throws Exception {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "compression.type", codec));
        more.fields().forEachRemaining(field -> config.put(field.getKey(), field.getValue().asText()));
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (var producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (JsonNode fields : records) {
                Integer partition = fields.get("partition").isNull() ? null : fields.get("partition").asInt();
                Long timestamp = fields.get("timestamp").isNull() ? null : fields.get("timestamp").asLong();
                var record = new ProducerRecord<>(topic, partition, timestamp, bytes(fields, "key"), bytes(fields, "value"));
                for (JsonNode header : fields.get("headers")) {
                    byte[] value = header.get(1).isNull() ? null : Base64.getDecoder().decode(header.get(1).asText());
                    record.headers().add(header.get(0).asText(), value);
                }
                sent.add(producer.send(record));
            }
            producer.flush();
        }
        ArrayNode deliveries = JSON.createArrayNode();
        for (Future<RecordMetadata> future : sent) {
            RecordMetadata done = future.get();
            deliveries.addArray().add(done.partition()).add(done.offset()).add(done.timestamp());
        }
        return deliveries;
    }

    private JsonNode read(String topic, JsonNode starts) {
        ArrayNode records = JSON.createArrayNode();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            List<TopicPartition> partitions = new ArrayList<>();
            for (Iterator<String> names = starts.fieldNames(); names.hasNext(); ) {
                partitions.add(new TopicPartition(topic, Integer.parseInt(names.next())));
            }
            consumer.assign(partitions);
            for (TopicPartition partition : partitions) {
                seek(consumer, partition, starts.get(String.valueOf(partition.partition())));
            }
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            long deadline = System.nanoTime() + TIMEOUT.toNanos();
            while (partitions.stream().anyMatch(each -> consumer.position(each) < ends.get(each))) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("reading " + topic + " took too long");
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(5))) {
                    records.add(record(record));
                }
            }
        }
        return records;
    }

    private void seek(KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, JsonNode start) {
        if (start.isIntegralNumber()) {
            consumer.seek(partition, start.asLong());
        } else if (start.isObject()) {
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, start.get("time").asLong())).get(partition);
            if (found == null) {
                consumer.seekToEnd(List.of(partition));
            } else {
                consumer.seek(partition, found.offset());
            }
        } else if (start.asText().equals("beginning")) {
            consumer.seekToBeginning(List.of(partition));
        } else {
            consumer.seekToEnd(List.of(partition));
        }
    }

    private JsonNode ends(TopicPartition partition) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            long low = consumer.beginningOffsets(List.of(partition)).get(partition);
            return JSON.createArrayNode().add(low).add(consumer.endOffsets(List.of(partition)).get(partition));
        }
    }

    private JsonNode time(TopicPartition partition, long timestamp) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, timestamp)).get(partition);
            return found == null ? JSON.nullNode() : JSON.valueToTree(found.offset());
        }
    }

    private KafkaConsumer<byte[], byte[]> consumer() {
        // a consumer closes when its last fetch is answered, which at a partition's end is after so long
        Map<String, Object> config =
            Map.of("bootstrap.servers", bootstrap, "auto.offset.reset", "none", "fetch.max.wait.ms", 20);
        return new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static JsonNode record(ConsumerRecord<byte[], byte[]> record) {
        if (record.timestampType() != TimestampType.CREATE_TIME) {
            throw new IllegalStateException("timestamp type " + record.timestampType());
        }
        ObjectNode fields = JSON.createObjectNode();
        fields.put("partition", record.partition()).put("offset", record.offset()).put("timestamp", record.timestamp());
        fields.put("key", record.key()).put("value", record.value());
        ArrayNode headers = fields.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(header.value());
        }
        return fields;
    }

    private static byte[] bytes(JsonNode fields, String name) {
        return fields.get(name).isNull() ? null : Base64.getDecoder().decode(fields.get(name).asText());
    }
}
