import com.fasterxml.jackson.databind.JsonNode;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/** When each record was sent and when each consumer had it: records go to partitions drawn at random. */
final class Deliveries {
    /** Sends one record to a partition. */
    interface Sender {
        void send(int partition, byte[] payload) throws Exception;
    }

    private static final long STEP_NANOS = 10_000;
    private static final long TIMEOUT_NANOS = 30_000_000_000L;

    final int consumers;
    final int partitions;
    private final double rate;
    private final int skipped;
    private final int count;
    private final List<byte[]> payloads;
    private final int[] partitionOf;
    /** Of the records of one partition, in their order, the numbers. */
    private final int[][] numbers;
    private final long[] sent;
    private final long[][] had;
    private final AtomicLong missing;
    private volatile Throwable failed;

    Deliveries(JsonNode command) throws Exception {
        consumers = command.get("consumers").asInt();
        partitions = command.get("partitions").asInt();
        rate = command.get("rate").asDouble();
        payloads = Load.payloads(command);
        skipped = (int) (rate * command.get("warm_seconds").asDouble());
        count = skipped + (int) (rate * command.get("seconds").asDouble());
        partitionOf = new Random(0).ints(count, 0, partitions).toArray();
        numbers = new int[partitions][];
        int[] sizes = new int[partitions];
        for (int partition : partitionOf) {
            sizes[partition]++;
        }
        for (int partition = 0; partition < partitions; partition++) {
            numbers[partition] = new int[sizes[partition]];
        }
        Arrays.fill(sizes, 0);
        for (int number = 0; number < count; number++) {
            numbers[partitionOf[number]][sizes[partitionOf[number]]++] = number;
        }
        sent = new long[count];
        had = new long[consumers][count];
        missing = new AtomicLong((long) count * consumers);
    }

    /** Something that records need has failed. */
    void fail(Throwable error) {
        failed = error;
    }

    boolean over() {
        return failed != null || missing.get() == 0;
    }

    /** A consumer has been handed those records of a partition that were sent there `from`th to before `to`th. */
    void arrived(int consumer, int partition, long from, long to, long now) {
        for (int place = (int) from; place < to; place++) {
            int number = numbers[partition][place];
            if (had[consumer][number] != 0) {
                throw new IllegalStateException("record " + number + " came twice");
            }
            had[consumer][number] = now;
        }
        missing.addAndGet(from - to);
    }

    /** Sends everything and waits until every consumer has it. */
    Map<String, Object> run(Sender sender) throws Exception {
        Load.pace(rate, count, number -> {
            sent[number] = System.nanoTime();
            sender.send(partitionOf[number], payloads.get(number % payloads.size()));
        });
        long sentAll = System.nanoTime();
        long before = missing.get();
        long timeoutAt = sentAll + TIMEOUT_NANOS;
        while (!over()) {
            long now = System.nanoTime();
            if (missing.get() < before) {
                before = missing.get();
                timeoutAt = now + TIMEOUT_NANOS;
            } else if (now > timeoutAt) {
                throw new IllegalStateException(before + " records do not come to their consumers");
            }
            LockSupport.parkNanos(1_000_000);
        }
        if (failed != null) {
            throw new IllegalStateException(failed);
        }
        return result((count - 1) / ((sentAll - sent[0]) / 1e9));
    }

    /** How many deliveries, and how many records until the last consumer had them, took so many steps of 10 µs. */
    private Map<String, Object> result(double achieved) {
        Map<Long, Integer> each = new TreeMap<>();
        Map<Long, Integer> all = new TreeMap<>();
        for (int number = skipped; number < count; number++) {
            long last = 0;
            for (long[] times : had) {
                each.merge((times[number] - sent[number]) / STEP_NANOS, 1, Integer::sum);
                last = Math.max(last, times[number]);
            }
            all.merge((last - sent[number]) / STEP_NANOS, 1, Integer::sum);
        }
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("each", each);
        result.put("all", all);
        result.put("rate", achieved);
        return result;
    }
}
