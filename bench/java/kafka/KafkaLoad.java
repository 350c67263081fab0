import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.tools.ConsumerPerformance;
import org.apache.kafka.tools.ProducerPerformance;

/** Kafka's own performance tools, and a producer at a fixed rate whose latencies are finer than the tool's. */
final class KafkaLoad {
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
        Properties settings = new Properties();
        command.get("settings").fields().forEachRemaining(one -> settings.put(one.getKey(), one.getValue().asText()));
        String topic = command.get("topic").asText();
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            return Load.paced(command, (payload, done) -> producer.send(new ProducerRecord<>(topic, payload), (stored, error) -> {
                if (error == null) {
                    done.run();
                }
            }));
        }
    }

    private static Object create(JsonNode command) throws Exception {
        NewTopic topic = new NewTopic(command.get("topic").asText(), command.get("partitions").asInt(), (short) 1);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", command.get("bootstrap").asText()))) {
            admin.createTopics(List.of(topic)).all().get();
        }
        return true;
    }
}
