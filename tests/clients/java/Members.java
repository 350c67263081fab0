import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.NullNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Members of consumer groups, each in a thread of its own; what happens to them is printed as events. */
final class Members {
    private static final long TIMEOUT = 60;
    private final String bootstrap;
    private final Map<String, Member> running = new HashMap<>();

    Members(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    JsonNode run(String operation, JsonNode command) throws Exception {
        String name = command.get("member").asText();
        switch (operation) {
            case "member-join":
                running.put(name, new Member(name, command));
                break;
            case "member-commit":
                CompletableFuture<Void> done = new CompletableFuture<>();
                running.get(name).commits.add(done);
                done.get(TIMEOUT, TimeUnit.SECONDS);
                break;
            case "member-leave":
                running.remove(name).leave();
                break;
            default:
                throw new IllegalArgumentException(operation);
        }
        return NullNode.instance;
    }

    void close() throws InterruptedException {
        for (Member member : running.values()) {
            member.leave();
        }
    }

    private final class Member implements Runnable, ConsumerRebalanceListener {
        final ConcurrentLinkedQueue<CompletableFuture<Void>> commits = new ConcurrentLinkedQueue<>();
        private final String name;
        private final KafkaConsumer<String, String> consumer;
        private final TreeSet<Integer> held = new TreeSet<>();
        private final Thread thread;
        private volatile boolean leaving;

        Member(String name, JsonNode joining) {
            this.name = name;
            Map<String, Object> config = new HashMap<>();
            config.put("bootstrap.servers", bootstrap);
            config.put("group.id", joining.get("group").asText());
            config.put("auto.offset.reset", joining.get("reset").asText());
            config.put("enable.auto.commit", false);
            if (joining.get("protocol").asText().equals("consumer")) {
                config.put("group.protocol", "consumer");
            } else {
                config.put("heartbeat.interval.ms", joining.get("heartbeat_ms").asInt());
                config.put("session.timeout.ms", joining.get("session_ms").asInt());
            }
            if (!joining.get("instance").isNull()) {
                config.put("group.instance.id", joining.get("instance").asText());
            }
            if (joining.get("cooperative").asBoolean()) {
                config.put("partition.assignment.strategy", CooperativeStickyAssignor.class.getName());
            }
            consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
            if (joining.get("pattern").isNull()) {
                consumer.subscribe(List.of(joining.get("topic").asText()), this);
            } else {
                subscribe(joining.get("pattern").asText());
            }
            thread = new Thread(this, name);
            thread.start();
        }

        /** As clients of version 4 do; those of 3.9 have no such class. */
        private void subscribe(String pattern) {
            try {
                Class<?> type = Class.forName("org.apache.kafka.clients.consumer.SubscriptionPattern");
                Object made = type.getConstructor(String.class).newInstance(pattern);
                KafkaConsumer.class.getMethod("subscribe", type, ConsumerRebalanceListener.class).invoke(consumer, made, this);
            } catch (ReflectiveOperationException error) {
                throw new IllegalStateException(error);
            }
        }

        void leave() throws InterruptedException {
            leaving = true;
            thread.join(TimeUnit.SECONDS.toMillis(TIMEOUT));
        }

        @Override
        public void run() {
            try {
                while (!leaving) {
                    tell(consumer.poll(Duration.ofMillis(50)));
                    for (CompletableFuture<Void> each = commits.poll(); each != null; each = commits.poll()) {
                        commit(each);
                    }
                }
            } catch (RuntimeException error) {
                Driver.print(event().put("failed", error.toString()));
            }
            try {
                consumer.close();
            } catch (RuntimeException error) {
                Driver.print(event().put("failed", error.toString()));
            }
            Driver.print(event().put("ended", true));
        }

        private void commit(CompletableFuture<Void> done) {
            try {
                consumer.commitSync();
                done.complete(null);
            } catch (RuntimeException error) {
                done.completeExceptionally(error);
            }
        }

        private void tell(ConsumerRecords<String, String> records) {
            if (records.isEmpty()) {
                return;
            }
            ObjectNode event = event();
            ArrayNode read = event.putArray("read");
            for (ConsumerRecord<String, String> record : records) {
                read.addArray().add(record.partition()).add(record.offset()).add(record.value());
            }
            Driver.print(event);
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            partitions.forEach(each -> held.add(each.partition()));
            tellHeld();
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            partitions.forEach(each -> held.remove(each.partition()));
            tellHeld();
        }

        private void tellHeld() {
            ObjectNode event = event();
            ArrayNode partitions = event.putArray("held");
            held.forEach(partitions::add);
            Driver.print(event);
        }

        private ObjectNode event() {
            return JsonNodeFactory.instance.objectNode().put("member", name);
        }
    }
}
