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
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Producers at a pace, which never repeat unless told to; what becomes of each record is printed:
 * [number, partition, offset, error, when it was told, when it was sent].
 */
public final class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUTPUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final long TOLD_EVERY = 20_000_000L;
    private final String bootstrap;
    private final Map<String, Sender> senders = new HashMap<>();

    private Driver(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Driver driver = new Driver(arguments[0]);
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            JsonNode command = JSON.readTree(line);
            String name = command.get("name").asText();
            ObjectNode answer = JSON.createObjectNode();
            if (command.get("op").asText().equals("start")) {
                driver.senders.put(name, driver.new Sender(name, command));
                answer.putNull("result");
            } else {
                answer.put("result", driver.senders.remove(name).end());
            }
            print(answer);
        }
    }

    /** Answers and outcomes share the output, each a line. */
    private static synchronized void print(ObjectNode line) {
        OUTPUT.println(line);
    }

    private final class Sender implements Runnable {
        private final String name;
        private final String topic;
        private final int partitions;
        private final long nanosBetween;
        private final KafkaProducer<byte[], byte[]> producer;
        private final Thread thread;
        private ArrayNode outcomes = JSON.createArrayNode();
        private long told = System.nanoTime();
        private int sent;
        private volatile boolean ending;

        Sender(String name, JsonNode command) {
            this.name = name;
            topic = command.get("topic").asText();
            partitions = command.get("partitions").asInt();
            nanosBetween = 1_000_000_000L / command.get("rate").asInt();
            Map<String, Object> settings = new HashMap<>();
            settings.put("bootstrap.servers", bootstrap);
            if (!command.path("repeats").asBoolean()) {
                settings.put("retries", 0);
                settings.put("enable.idempotence", false);
            }
            settings.put("linger.ms", 5);
            command.path("settings").fields().forEachRemaining(
                each -> settings.put(each.getKey(), each.getValue().asText()));
            producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
            thread = new Thread(this, name);
            thread.start();
        }

        @Override
        public void run() {
            long due = System.nanoTime();
            for (; !ending; sent++) {
                long left = due - System.nanoTime();
                if (left > 0) {
                    LockSupport.parkNanos(left);
                }
                due += nanosBetween;
                int number = sent;
                byte[] value = (name + ":" + number).getBytes(StandardCharsets.US_ASCII);
                double when = System.nanoTime() / 1e9;
                producer.send(new ProducerRecord<>(topic, number % partitions, null, value), (where, error) -> {
                    int partition = error == null ? where.partition() : -1;
                    outcome(number, partition, error == null ? where.offset() : -1, error, when);
                });
                tell(false);
            }
        }

        private synchronized void outcome(int number, int partition, long offset, Exception error, double sent) {
            ArrayNode one = outcomes.addArray().add(number).add(partition).add(offset);
            one.add(error == null ? null : error.toString()).add(System.nanoTime() / 1e9).add(sent);
        }

        private synchronized void tell(boolean now) {
            if (outcomes.isEmpty() || !(now || System.nanoTime() - told > TOLD_EVERY)) {
                return;
            }
            told = System.nanoTime();
            ObjectNode line = JSON.createObjectNode().put("member", name);
            line.set("outcomes", outcomes);
            outcomes = JSON.createArrayNode();
            print(line);
        }

        /** How many were sent; each of them has its outcome. */
        int end() throws Exception {
            ending = true;
            thread.join();
            producer.flush();
            producer.close(Duration.ofSeconds(10));
            tell(true);
            return sent;
        }
    }
}
