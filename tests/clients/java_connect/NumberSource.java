import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** Numbers from 0 on into each partition of a topic: a partition is one of the source's, too, and is one task's. */
public final class NumberSource extends SourceConnector {
    private Map<String, String> settings;

    @Override
    public void start(Map<String, String> given) {
        settings = given;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        List<Map<String, String>> tasks = new ArrayList<>();
        for (int task = 0; task < most; task++) {
            Map<String, String> config = new HashMap<>(settings);
            config.put("task", Integer.toString(task));
            config.put("tasks", Integer.toString(most));
            tasks.add(config);
        }
        return tasks;
    }

    @Override
    public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> given) {
        return ExactlyOnceSupport.SUPPORTED;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return Numbers.class;
    }

    @Override
    public void stop() {}

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public String version() {
        return "1";
    }

    /** A few numbers of each of its partitions at a time, one after the other. */
    public static final class Numbers extends SourceTask {
        private static final int AT_ONCE = 5;
        private static final Duration PACE = Duration.ofMillis(20);
        private final Map<Integer, Long> next = new TreeMap<>();
        private String topic;
        private long count;

        @Override
        public void start(Map<String, String> config) {
            topic = config.get("topic");
            count = Long.parseLong(config.get("count"));
            int tasks = Integer.parseInt(config.get("tasks"));
            for (int one = Integer.parseInt(config.get("task")); one < Integer.parseInt(config.get("partitions")); one += tasks) {
                Map<String, Object> offset = context.offsetStorageReader().offset(Map.of("partition", one));
                next.put(one, offset == null ? 0 : ((Number) offset.get("next")).longValue());
            }
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            Thread.sleep(PACE.toMillis());
            List<SourceRecord> records = new ArrayList<>();
            for (Map.Entry<Integer, Long> each : next.entrySet()) {
                int partition = each.getKey();
                long end = Math.min(each.getValue() + AT_ONCE, count);
                for (long number = each.getValue(); number < end; number++) {
                    records.add(new SourceRecord(
                            Map.of("partition", partition), Map.of("next", number + 1), topic, partition,
                            Schema.STRING_SCHEMA, "key", Schema.STRING_SCHEMA, Long.toString(number)));
                }
                each.setValue(end);
            }
            return records.isEmpty() ? null : records;
        }

        @Override
        public void stop() {}

        @Override
        public String version() {
            return "1";
        }
    }
}
