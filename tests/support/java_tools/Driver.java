import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.common.utils.Exit;

/** Runs Kafka's tools one after the other: the start of a JVM is most of what one takes. */
public final class Driver {
    private static final AtomicReference<Integer> CODE = new AtomicReference<>();

    /** Unwinds a tool that exits; some catch it and exit again, and the first time counts. */
    private static final class Exited extends Error {
        Exited() {
            super(null, null, false, false);
        }
    }

    private static void exit(int code, String message) {
        CODE.compareAndSet(null, code);
        throw new Exited();
    }

    public static void main(String[] arguments) throws Exception {
        Exit.setExitProcedure(Driver::exit);
        Exit.setHaltProcedure(Driver::exit);
        Exit.setShutdownHookAdder((name, hook) -> {});
        ObjectMapper json = new ObjectMapper();
        PrintStream answers = System.out;
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = asked.readLine(); line != null; line = asked.readLine()) {
            answers.println(json.writeValueAsString(Map.of("result", run(json.readTree(line)))));
        }
        Runtime.getRuntime().halt(0);
    }

    private static List<Object> run(JsonNode asked) throws Exception {
        List<String> words = new ArrayList<>();
        asked.get("arguments").forEach(word -> words.add(word.asText()));
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        ByteArrayOutputStream errors = new ByteArrayOutputStream();
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(errors, true, StandardCharsets.UTF_8));
        CODE.set(null);
        try {
            Class<?> tool = Class.forName(asked.get("tool").asText());
            tool.getMethod("main", String[].class).invoke(null, (Object) words.toArray(String[]::new));
            CODE.compareAndSet(null, 0);
        } catch (InvocationTargetException failure) {
            if (CODE.compareAndSet(null, 1)) {
                failure.getCause().printStackTrace();
            }
        }
        return List.of(
            CODE.get(), printed.toString(StandardCharsets.UTF_8), errors.toString(StandardCharsets.UTF_8));
    }
}
