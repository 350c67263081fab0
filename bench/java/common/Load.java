import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;

/** What the loads of both systems share: commands as JSON lines, so that one warm JVM runs every round. */
final class Load {
    interface Operation {
        Object run(JsonNode arguments) throws Exception;
    }

    /** Sends one record; `done` is to be called when it is acknowledged. */
    interface Sender {
        void send(byte[] payload, Runnable done) throws Exception;
    }

    /** One step of a load that is paced. */
    interface Step {
        void run(int number) throws Exception;
    }

    private Load() {}

    /** Standard output is for answers; what else is printed, by whatever library, goes to standard error. */
    static PrintStream takeOutput() {
        PrintStream answers = System.out;
        System.setOut(System.err);
        return answers;
    }

    static void serve(PrintStream answers, Map<String, Operation> operations) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BlockingQueue<String> lines = new LinkedBlockingQueue<>();
        onStandardInput(lines::add);
        while (true) {
            JsonNode command = json.readTree(lines.take());
            Map<String, Object> answer = new LinkedHashMap<>();
            try {
                answer.put("result", operations.get(command.get("op").asText()).run(command));
            } catch (Throwable error) {
                error.printStackTrace();
                answer.put("error", error.getClass().getSimpleName());
                answer.put("message", String.valueOf(error.getMessage()));
            }
            answers.println(json.writeValueAsString(answer));
            answers.flush();
        }
    }

    /** The end of standard input ends this process, whatever it is doing: who started it is gone. */
    private static void onStandardInput(Consumer<String> take) {
        Thread reader = new Thread(() -> {
            try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
                in.lines().forEach(take);
            } catch (Exception error) {
                error.printStackTrace();
            }
            Runtime.getRuntime().halt(0);
        });
        reader.setDaemon(true);
        reader.start();
    }

    static List<byte[]> payloads(JsonNode arguments) throws Exception {
        return Files.readAllLines(Path.of(arguments.get("payloads").asText())).stream().map(String::getBytes).toList();
    }

    /** Runs so many steps at a fixed rate. */
    static void pace(double rate, int count, Step step) throws Exception {
        long begin = System.nanoTime();
        for (int number = 0; number < count; number++) {
            long due = begin + (long) (number * 1e9 / rate);
            long left;
            while ((left = due - System.nanoTime()) > 0) {
                LockSupport.parkNanos(left);
            }
            step.run(number);
        }
    }

    /** Latencies from `send` to acknowledgement at a fixed rate, in milliseconds; the first part is not counted. */
    static Map<String, Object> paced(JsonNode arguments, Sender sender) throws Exception {
        List<byte[]> payloads = payloads(arguments);
        double rate = arguments.get("rate").asDouble();
        int skipped = (int) (rate * arguments.get("warm_seconds").asDouble());
        int count = skipped + (int) (rate * arguments.get("seconds").asDouble());
        long[] nanoseconds = new long[count];
        AtomicInteger answered = new AtomicInteger();
        long begin = System.nanoTime();
        pace(rate, count, number -> {
            long sent = System.nanoTime();
            sender.send(payloads.get(number % payloads.size()), () -> {
                nanoseconds[number] = System.nanoTime() - sent;
                answered.incrementAndGet();
            });
        });
        long sentAll = System.nanoTime();
        while (answered.get() < count) {
            if (System.nanoTime() - sentAll > 30_000_000_000L) {
                throw new IllegalStateException(count - answered.get() + " records are not acknowledged");
            }
            LockSupport.parkNanos(1_000_000);
        }
        Map<String, Object> result = percentiles(Arrays.copyOfRange(nanoseconds, skipped, count));
        result.put("rate", count / ((sentAll - begin) / 1e9));
        return result;
    }

    /** `p50` and `p99` in milliseconds; it sorts what it is given. */
    static Map<String, Object> percentiles(long[] nanoseconds) {
        Arrays.sort(nanoseconds);
        Map<String, Object> found = new LinkedHashMap<>();
        for (int percent : new int[] {50, 99}) {
            int at = (int) Math.min(nanoseconds.length - 1L, nanoseconds.length * (long) percent / 100);
            found.put("p" + percent, nanoseconds[at] / 1e6);
        }
        return found;
    }
}
