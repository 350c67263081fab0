import com.fasterxml.jackson.databind.JsonNode;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Transactions of Kafka's own client. It needs nothing else of Kafka, so that old versions of it can run this, too. */
final class TransactionLoad {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final int RECORD_BYTES = 1024;
    /** More than a transaction of 100 records, and little for a commit to wait for: it sends what is there. */
    private static final int BUFFER_BYTES = 256 * 1024;
    private static final Queue<KafkaProducer<byte[], byte[]>> opened = new ConcurrentLinkedQueue<>();

    public static void main(String[] arguments) throws Exception {
        Load.serve(Load.takeOutput(), Map.of(
            "open", TransactionLoad::open,
            "transactions", TransactionLoad::transactions,
            "close", TransactionLoad::close,
            "appends", TransactionLoad::appends,
            "fill", TransactionLoad::fill,
            "copy", TransactionLoad::copy,
            "visible", TransactionLoad::visible,
            "flow", TransactionLoad::flow));
    }

    /** Producers for `transactions`, each of which has written to all partitions. */
    private static Object open(JsonNode command) throws Exception {
        each(Collections.nCopies(command.get("producers").asInt(), () -> {
            KafkaProducer<byte[], byte[]> producer = producer(command, newId());
            opened.add(producer);
            for (int number = 0; number < command.get("partitions").asInt(); number++) {
                producer.beginTransaction();
                send(producer, command, number);
                producer.commitTransaction();
            }
            return null;
        }));
        return true;
    }

    /** The producers that are open, at once, each with one transaction after another. */
    private static Object transactions(JsonNode command) throws Exception {
        List<Long> whole = Collections.synchronizedList(new ArrayList<>());
        List<Long> end = Collections.synchronizedList(new ArrayList<>());
        Clock clock = new Clock(command);
        each(opened.stream().<Callable<Void>>map(producer -> () -> {
            for (int number = 0; clock.goesOn(); number++) {
                long began = System.nanoTime();
                producer.beginTransaction();
                send(producer, command, number);
                producer.flush();
                long stored = System.nanoTime();
                producer.commitTransaction();
                long ended = System.nanoTime();
                if (clock.counts(ended)) {
                    whole.add(ended - began);
                    end.add(ended - stored);
                }
            }
            return null;
        }).toList());
        double rate = whole.size() / command.get("seconds").asDouble();
        return Map.of("rate", rate, "whole", percentiles(whole), "end", percentiles(end));
    }

    private static Object close(JsonNode command) {
        opened.forEach(KafkaProducer::close);
        opened.clear();
        return true;
    }

    /** Runs all at the same time. */
    private static void each(List<Callable<Void>> tasks) throws Exception {
        ExecutorService threads = Executors.newCachedThreadPool();
        try {
            for (Future<Void> one : threads.invokeAll(tasks)) {
                one.get();
            }
        } finally {
            threads.shutdownNow();
        }
    }

    /** Single records of an idempotent producer, each sent when the one before is acknowledged. */
    private static Object appends(JsonNode command) throws Exception {
        List<Long> took = new ArrayList<>();
        try (var producer = producer(command, null)) {
            Clock clock = new Clock(command);
            while (clock.goesOn()) {
                long began = System.nanoTime();
                producer.send(record(command, 0, new byte[RECORD_BYTES])).get();
                long ended = System.nanoTime();
                if (clock.counts(ended)) {
                    took.add(ended - began);
                }
            }
        }
        return percentiles(took);
    }

    /** So many records. */
    private static Object fill(JsonNode command) throws Exception {
        try (var producer = producer(command, null)) {
            send(producer, command, 0);
        }
        return true;
    }

    /** Reads committed records and writes them to another topic, each hundred in a transaction with their offsets. */
    private static Object copy(JsonNode command) throws Exception {
        Map<String, Object> settings = reader(command);
        settings.put("group.id", newId());
        settings.put("max.poll.records", command.get("records").asInt());
        settings.put("auto.offset.reset", "earliest");
        String target = command.get("target").asText();
        long copied = 0;
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
                var producer = producer(command, newId())) {
            consumer.subscribe(List.of(command.get("topic").asText()));
            ConsumerRecords<byte[], byte[]> records;
            do {
                records = consumer.poll(POLL);
            } while (records.isEmpty());
            Clock clock = new Clock(command);
            while (clock.goesOn()) {
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                producer.beginTransaction();
                for (ConsumerRecord<byte[], byte[]> one : records) {
                    producer.send(new ProducerRecord<>(target, one.partition(), null, one.value()));
                    offsets.put(new TopicPartition(one.topic(), one.partition()), new OffsetAndMetadata(one.offset() + 1));
                }
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                producer.commitTransaction();
                copied += clock.counts(System.nanoTime()) ? records.count() : 0;
                records = consumer.poll(POLL);
                if (records.isEmpty()) {
                    throw new IllegalStateException("the source is at its end");
                }
            }
        }
        return copied / command.get("seconds").asDouble();
    }

    /** From the call of commit until a reader of committed records has the record, one at a time. `elsewhere`: see there. */
    private static Object visible(JsonNode command) throws Exception {
        TopicPartition partition = new TopicPartition(command.get("topic").asText(), 0);
        SynchronousQueue<Long> arrived = new SynchronousQueue<>();
        List<Long> took = new ArrayList<>();
        try (var consumer = new KafkaConsumer<>(
                    reader(command), new ByteArrayDeserializer(), new ByteArrayDeserializer());
                var producer = command.get("elsewhere").asBoolean() ? elsewhere(command) : producer(command, newId())) {
            consumer.assign(List.of(partition));
            consumer.seekToEnd(List.of(partition));
            consumer.position(partition);
            Thread polling = new Thread(() -> {
                try {
                    while (true) {
                        if (!consumer.poll(POLL).isEmpty()) {
                            arrived.put(System.nanoTime());
                        }
                    }
                } catch (InterruptedException | InterruptException ended) {
                    return;
                }
            });
            polling.start();
            try {
                Clock clock = new Clock(command);
                while (clock.goesOn()) {
                    producer.beginTransaction();
                    producer.send(record(command, 0, new byte[RECORD_BYTES])).get();
                    long began = System.nanoTime();
                    producer.commitTransaction();
                    Long came = arrived.poll(30, TimeUnit.SECONDS);
                    if (came == null) {
                        throw new IllegalStateException("a committed record has not come");
                    }
                    if (clock.counts(came)) {
                        took.add(came - began);
                    }
                }
            } finally {
                polling.interrupt();
                polling.join();
            }
        }
        return percentiles(took);
    }

    /** A producer whose transactions another node decides than the one that leads the partition. */
    private static KafkaProducer<byte[], byte[]> elsewhere(JsonNode command) throws Exception {
        String topic = command.get("topic").asText();
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", command.get("bootstrap").asText()))) {
            int leader = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().get(0).leader().id();
            while (true) {
                String id = newId();
                var producer = producer(command, id);
                if (admin.describeTransactions(List.of(id)).description(id).get().coordinatorId() != leader) {
                    return producer;
                }
                producer.close();
            }
        }
    }

    /** As many records as go, acknowledged ones a second; a commit each `commit_ms`, or none with 0. */
    private static Object flow(JsonNode command) throws Exception {
        long commitNanos = command.get("commit_ms").asLong() * 1_000_000;
        AtomicLong acknowledged = new AtomicLong();
        byte[] value = new byte[RECORD_BYTES];
        try (var producer = producer(command, commitNanos > 0 ? newId() : null)) {
            Clock clock = new Clock(command);
            long began = System.nanoTime();
            if (commitNanos > 0) {
                producer.beginTransaction();
            }
            for (int number = 0; clock.goesOn(); number++) {
                producer.send(record(command, number, value), (stored, error) -> {
                    if (error == null && clock.counts(System.nanoTime())) {
                        acknowledged.incrementAndGet();
                    }
                });
                if (commitNanos > 0 && System.nanoTime() - began > commitNanos) {
                    producer.commitTransaction();
                    producer.beginTransaction();
                    began = System.nanoTime();
                }
            }
            if (commitNanos > 0) {
                producer.commitTransaction();
            }
        }
        return acknowledged.get() / command.get("seconds").asDouble();
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, JsonNode command, int transaction) {
        int count = command.get("records").asInt();
        for (int number = 0; number < count; number++) {
            byte[] value = ByteBuffer.allocate(RECORD_BYTES).putInt(transaction).putInt(number).array();
            producer.send(record(command, transaction + number, value));
        }
    }

    private static ProducerRecord<byte[], byte[]> record(JsonNode command, int number, byte[] value) {
        return new ProducerRecord<>(
            command.get("topic").asText(), number % command.get("partitions").asInt(), null, value);
    }

    private static KafkaProducer<byte[], byte[]> producer(JsonNode command, String transactionalId) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", command.get("bootstrap").asText());
        settings.put("linger.ms", 5);
        settings.put("buffer.memory", BUFFER_BYTES);
        if (transactionalId != null) {
            settings.put("transactional.id", transactionalId);
        }
        var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        if (transactionalId != null) {
            producer.initTransactions();
        }
        return producer;
    }

    private static Map<String, Object> reader(JsonNode command) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", command.get("bootstrap").asText());
        settings.put("isolation.level", "read_committed");
        settings.put("enable.auto.commit", "false");
        return settings;
    }

    private static String newId() {
        return "bench-" + UUID.randomUUID();
    }

    private static Map<String, Object> percentiles(List<Long> nanoseconds) {
        return Load.percentiles(nanoseconds.stream().mapToLong(Long::longValue).toArray());
    }

    /** What ends while the load warms up is not counted, and nothing that ends after it. */
    private static final class Clock {
        private final long begin = System.nanoTime();
        private final long warm;
        private final long whole;

        Clock(JsonNode command) {
            warm = (long) (command.get("warm_seconds").asDouble() * 1e9);
            whole = warm + (long) (command.get("seconds").asDouble() * 1e9);
        }

        boolean goesOn() {
            return System.nanoTime() - begin < whole;
        }

        boolean counts(long at) {
            return at - begin >= warm && at - begin < whole;
        }
    }
}
