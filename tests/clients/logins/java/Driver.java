import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Logs in on command, produces a record and fetches it: one JSON line in, one JSON line out. */
public final class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            JsonNode asked = JSON.readTree(line);
            ObjectNode result = JSON.createObjectNode().put("error", "").put("text", "");
            long begun = System.nanoTime();
            try {
                produceAndFetch(asked);
            } catch (Exception failed) {
                Throwable cause = failed instanceof ExecutionException ? failed.getCause() : failed;
                result.put("error", cause.getClass().getSimpleName()).put("text", cause.getMessage());
            }
            result.put("seconds", (System.nanoTime() - begun) / 1e9);
            System.out.println(JSON.createObjectNode().set("result", result));
        }
    }

    private static void produceAndFetch(JsonNode asked) throws Exception {
        Map<String, Object> words = new HashMap<>();
        asked.get("words").properties().forEach(word -> words.put(word.getKey(), word.getValue().asText()));
        Duration timeout = Duration.ofMillis((long) (asked.get("seconds").asDouble() * 1000));
        words.put("max.block.ms", String.valueOf(timeout.toMillis()));
        String topic = asked.get("topic").asText(), value = asked.get("value").asText();
        RecordMetadata sent;
        StringSerializer serializer = new StringSerializer();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(words, serializer, serializer)) {
            sent = producer.send(new ProducerRecord<>(topic, value)).get();
        }
        words.remove("max.block.ms");
        StringDeserializer deserializer = new StringDeserializer();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(words, deserializer, deserializer)) {
            TopicPartition partition = new TopicPartition(topic, sent.partition());
            consumer.assign(List.of(partition));
            consumer.seek(partition, sent.offset());
            ConsumerRecords<String, String> found = consumer.poll(timeout);
            ConsumerRecord<String, String> first = found.iterator().next();
            if (!first.value().equals(value)) {
                throw new IllegalStateException("another record is there");
            }
        }
    }
}
