import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.TransactionNamingStrategy;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** Numbers from 0 on into a topic, exactly once; `failures` says how often the job fails on its way. */
public final class Numbers {
    public static void main(String[] arguments) throws Exception {
        Map<String, String> settings = new HashMap<>();
        for (String argument : arguments) {
            String[] setting = argument.split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        Configuration config = new Configuration();
        config.setString("parallelism.default", "2");
        config.setString("execution.checkpointing.interval", "500 ms");
        config.setString("execution.checkpointing.storage", "filesystem");
        config.setString("execution.checkpointing.dir", Path.of(settings.get("checkpoints")).toUri().toString());
        config.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        config.setString("restart-strategy.type", "fixed-delay");
        config.setString("restart-strategy.fixed-delay.attempts", settings.get("failures"));
        config.setString("restart-strategy.fixed-delay.delay", "100 ms");
        if (settings.containsKey("restore")) {
            config.setString("execution.state-recovery.path", settings.get("restore"));
        }
        KafkaSink<String> sink = KafkaSink.<String>builder()
                .setBootstrapServers(settings.get("bootstrap"))
                .setRecordSerializer(KafkaRecordSerializationSchema.builder()
                        .setTopic(settings.get("topic"))
                        .setValueSerializationSchema(new SimpleStringSchema())
                        .build())
                .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                .setTransactionalIdPrefix(settings.get("prefix"))
                .setTransactionNamingStrategy(TransactionNamingStrategy.valueOf(settings.get("naming")))
                .setProperty("transaction.timeout.ms", "600000")
                .build();
        DataGeneratorSource<String> source = new DataGeneratorSource<>(
                String::valueOf,
                Long.parseLong(settings.get("count")),
                RateLimiterStrategy.perSecond(Double.parseDouble(settings.get("rate"))),
                Types.STRING);
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment(config);
        environment.fromSource(source, WatermarkStrategy.noWatermarks(), "numbers")
                .map(new Failing(Integer.parseInt(settings.get("failures"))))
                .sinkTo(sink);
        environment.execute();
    }

    /** Passes all on, and lets the job fail so often, each time with records that no checkpoint has taken in. */
    private static final class Failing extends RichMapFunction<String, String> implements CheckpointListener {
        private static final int RECORDS_LOST = 10;
        private static int failed;
        private final int failures;
        private int recordsSinceCheckpoint = Integer.MIN_VALUE;

        private Failing(int failures) {
            this.failures = failures;
        }

        @Override
        public String map(String value) {
            boolean first = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask() == 0;
            if (++recordsSinceCheckpoint > RECORDS_LOST && first && failed < failures) {
                failed++;
                throw new IllegalStateException("the job shall fail");
            }
            return value;
        }

        @Override
        public void notifyCheckpointComplete(long checkpoint) {
            recordsSinceCheckpoint = 0;
        }
    }
}
