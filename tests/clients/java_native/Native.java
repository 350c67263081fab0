import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;

/** Pulsar's own Java client: writes one large message in chunks, or reads messages by each type of subscription. */
public final class Native {
    private static final PrintStream OUTPUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private Native() {
    }

    /** Arguments: the service URL, the topic; write, the size and the seed; or read, the number and the types. */
    public static void main(String[] arguments) throws Exception {
        try (PulsarClient client = PulsarClient.builder().serviceUrl(arguments[0]).build()) {
            if (arguments[2].equals("write")) {
                write(client, arguments[1], Integer.parseInt(arguments[3]), Long.parseLong(arguments[4]));
            } else {
                for (int type = 4; type < arguments.length; type++) {
                    read(client, arguments[1], SubscriptionType.valueOf(arguments[type]), Integer.parseInt(arguments[3]));
                }
            }
        }
    }

    private static void write(PulsarClient client, String topic, int size, long seed) throws Exception {
        byte[] value = new byte[size];
        new Random(seed).nextBytes(value);
        try (Producer<byte[]> producer =
                client.newProducer().topic(topic).enableChunking(true).enableBatching(false).create()) {
            producer.newMessage().key("native").property("size", String.valueOf(size)).value(value).send();
        }
        OUTPUT.println(digest(value));
    }

    private static void read(PulsarClient client, String topic, SubscriptionType type, int count) throws Exception {
        try (Consumer<byte[]> consumer = client.newConsumer().topic(topic).subscriptionName("native-" + type)
                .subscriptionType(type).subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe()) {
            for (int number = 0; number < count; number++) {
                Message<byte[]> message = consumer.receive(60, TimeUnit.SECONDS);
                if (message == null) {
                    throw new IllegalStateException(number + " of " + count + " came");
                }
                Map<String, String> properties = new TreeMap<>(message.getProperties());
                properties.keySet().removeIf(name -> name.startsWith("kafka.batch"));
                OUTPUT.println(message.getKey() + " " + message.getValue().length + " " + digest(message.getValue())
                        + " " + message.getEventTime() + " " + properties);
                consumer.acknowledge(message);
            }
        }
    }

    private static String digest(byte[] value) throws Exception {
        return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(value));
    }
}
