import com.fasterxml.jackson.databind.JsonNode;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.pulsar.client.api.CompressionType;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.ReaderBuilder;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;

/** The same loads by Pulsar's own Java client. */
final class PulsarLoad {
    private static final int SECONDS_WITHOUT_A_MESSAGE = 20;

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = Load.takeOutput();
        try (PulsarClient client = PulsarClient.builder().serviceUrl(arguments[0]).build()) {
            Load.serve(answers, Map.of(
                "produce", command -> produce(client, command),
                "consume", command -> consume(client, command),
                "latency", command -> latency(client, command),
                "end_to_end", command -> endToEnd(client, command)));
        }
    }

    private static Producer<byte[]> producer(PulsarClient client, JsonNode command) throws Exception {
        return producer(client, command, command.get("topic").asText());
    }

    /** Without linger a record is sent by itself at once, as Kafka's producer does while it has a request to spare. */
    private static Producer<byte[]> producer(PulsarClient client, JsonNode command, String topic) throws Exception {
        long linger = command.get("linger_ms").asLong();
        return client.newProducer()
            .topic(topic)
            .enableBatching(linger > 0)
            .batchingMaxBytes(command.get("batch_bytes").asInt())
            .batchingMaxMessages(Integer.MAX_VALUE)
            .batchingMaxPublishDelay(Math.max(linger, 1), TimeUnit.MILLISECONDS)
            .maxPendingMessages(command.get("pending").asInt())
            .maxPendingMessagesAcrossPartitions(Integer.MAX_VALUE)
            .blockIfQueueFull(true)
            .compressionType(CompressionType.valueOf(command.get("compression").asText()))
            .create();
    }

    /** Seconds from the producer's making, as Kafka's tool has its first metadata in its time, to the last receipt. */
    private static Object produce(PulsarClient client, JsonNode command) throws Exception {
        List<byte[]> payloads = Load.payloads(command);
        int records = command.get("records").asInt();
        AtomicReference<Throwable> failed = new AtomicReference<>();
        Random random = new Random(0);
        long begin = System.nanoTime();
        try (Producer<byte[]> producer = producer(client, command)) {
            for (int number = 0; number < records; number++) {
                producer.sendAsync(payloads.get(random.nextInt(payloads.size()))).whenComplete((id, error) -> {
                    if (error != null) {
                        failed.set(error);
                    }
                });
            }
            producer.flush();
        }
        if (failed.get() != null) {
            throw new IllegalStateException(failed.get());
        }
        return (System.nanoTime() - begin) / 1e9;
    }

    private static Object latency(PulsarClient client, JsonNode command) throws Exception {
        try (Producer<byte[]> producer = producer(client, command)) {
            return Load.paced(command, (payload, done) -> producer.sendAsync(payload).thenRun(done));
        }
    }

    /** From `send` to what a reader of its own calls for each consumer: `readNext` for a single one, listeners for more. */
    private static Object endToEnd(PulsarClient client, JsonNode command) throws Exception {
        Deliveries deliveries = new Deliveries(command);
        List<String> topics = new ArrayList<>();
        Map<String, Integer> partitions = new HashMap<>();
        List<Producer<byte[]>> producers = new ArrayList<>();
        List<Reader<byte[]>> readers = new ArrayList<>();
        try {
            for (int partition = 0; partition < deliveries.partitions; partition++) {
                topics.add(command.get("topic").asText() + "-partition-" + partition);
                partitions.put(topics.get(partition), partition);
                producers.add(producer(client, command, topics.get(partition)));
            }
            for (int consumer = 0; consumer < deliveries.consumers; consumer++) {
                readers.add(reader(client, topics, partitions, consumer, deliveries));
            }
            return deliveries.run((partition, payload) ->
                producers.get(partition).sendAsync(payload).exceptionally(error -> {
                    deliveries.fail(error);
                    return null;
                }));
        } finally {
            for (Reader<byte[]> reader : readers) {
                reader.close();
            }
            for (Producer<byte[]> producer : producers) {
                producer.close();
            }
        }
    }

    private static Reader<byte[]> reader(PulsarClient client, List<String> topics, Map<String, Integer> partitions,
            int consumer, Deliveries deliveries) throws Exception {
        ReaderBuilder<byte[]> builder = client.newReader().topics(topics).startMessageId(MessageId.latest);
        if (deliveries.consumers > 1) {
            return builder.readerListener((reader, message) -> take(message, partitions, consumer, deliveries)).create();
        }
        Reader<byte[]> reader = builder.create();
        new Thread(() -> {
            try {
                while (!deliveries.over()) {
                    Message<byte[]> message = reader.readNext(100, TimeUnit.MILLISECONDS);
                    if (message != null) {
                        take(message, partitions, consumer, deliveries);
                    }
                }
            } catch (Exception error) {
                deliveries.fail(error);
            }
        }, "reader").start();
        return reader;
    }

    private static void take(
            Message<byte[]> message, Map<String, Integer> partitions, int consumer, Deliveries deliveries) {
        long now = System.nanoTime();
        try {
            long place = message.getSequenceId(); // of a producer that is new in this run: from 0 on
            deliveries.arrived(consumer, partitions.get(message.getTopicName()), place, place + 1, now);
        } catch (RuntimeException error) {
            deliveries.fail(error);
        }
    }

    /** Seconds in which each of so many consumers, each in a subscription of its own, has had every record. */
    private static Object consume(PulsarClient client, JsonNode command) throws Exception {
        int records = command.get("records").asInt();
        List<Consumer<byte[]>> consumers = new ArrayList<>();
        for (int number = 0; number < command.get("consumers").asInt(); number++) {
            consumers.add(client.newConsumer()
                .topic(command.get("topic").asText())
                .subscriptionName(command.get("subscription").asText() + number)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                .receiverQueueSize(command.get("queue").asInt())
                .maxTotalReceiverQueueSizeAcrossPartitions(Integer.MAX_VALUE)
                .subscribe());
        }
        long begin = System.nanoTime();
        List<CompletableFuture<Void>> readings = new ArrayList<>();
        for (Consumer<byte[]> consumer : consumers) {
            CompletableFuture<Void> reading = new CompletableFuture<>();
            readings.add(reading);
            new Thread(() -> {
                try {
                    read(consumer, records);
                    reading.complete(null);
                } catch (Throwable error) {
                    reading.completeExceptionally(error);
                }
            }).start();
        }
        CompletableFuture.allOf(readings.toArray(new CompletableFuture[0])).get();
        double seconds = (System.nanoTime() - begin) / 1e9;
        for (Consumer<byte[]> consumer : consumers) {
            consumer.unsubscribe();
            consumer.close();
        }
        return seconds;
    }

    private static void read(Consumer<byte[]> consumer, int records) throws Exception {
        for (int number = 0; number < records; number++) {
            Message<byte[]> message = consumer.receive(SECONDS_WITHOUT_A_MESSAGE, TimeUnit.SECONDS);
            if (message == null) {
                throw new IllegalStateException("only " + number + " of " + records + " messages came");
            }
        }
    }
}
