import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** What tests/migration/program.py is, with the Java client: it says the same lines, and ends in order at SIGTERM. */
public final class Program {
    private static volatile boolean ending;

    public static void main(String[] words) throws InterruptedException {
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            ending = true;
            try {
                main.join(60_000);
            } catch (InterruptedException error) {
                main.interrupt();
            }
        }));
        if (words[0].equals("produce")) {
            produce(words[1], words[2], words[3], Integer.parseInt(words[4]), Integer.parseInt(words[5]), Integer.parseInt(words[6]));
        } else {
            consume(words[1], words[2], words[3]);
        }
    }

    static synchronized void say(String line) {
        System.out.println(line);
    }

    private static void produce(String bootstrap, String topic, String name, int first, int partitions, int rate) {
        Map<String, Object> config = Map.of("bootstrap.servers", bootstrap, "acks", "all");
        try (var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            long began = System.nanoTime();
            for (int n = first; !ending; n++) {
                int number = n;
                var headers = new RecordHeaders().add("by", name.getBytes(StandardCharsets.UTF_8));
                var record = new ProducerRecord<>(
                    topic, n % partitions, 1_700_000_000_000L + n, "key-" + n % 50, name + ":" + n, headers);
                producer.send(record, (done, error) -> {
                    if (error != null) {
                        say("failed " + error);
                    } else {
                        say("acked " + number + " " + System.currentTimeMillis());
                    }
                });
                LockSupport.parkNanos(began + (n - first + 1) * 1_000_000_000L / rate - System.nanoTime());
            }
        }
        say("ended");
    }

    private static void consume(String bootstrap, String topic, String group) {
        Map<String, Object> config = Map.of(
            "bootstrap.servers", bootstrap, "group.id", group, "auto.offset.reset", "earliest",
            "enable.auto.commit", false);
        try (var consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            long due = System.currentTimeMillis() + 500;
            while (!ending) {
                for (ConsumerRecord<String, String> one : consumer.poll(Duration.ofMillis(50))) {
                    say("read " + one.partition() + " " + one.offset() + " " + System.currentTimeMillis() + " " + one.value());
                }
                if (System.currentTimeMillis() >= due) {
                    consumer.commitSync();
                    due = System.currentTimeMillis() + 500;
                }
            }
            consumer.commitSync();
        }
        say("ended");
    }
}
