import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.NullNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.DeletedRecords;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Commits without a member, administers groups, configs, partitions and records. */
final class Administration {
    private static final ObjectMapper JSON = new ObjectMapper();
    private final String bootstrap;
    private final Admin admin;

    Administration(String bootstrap, Admin admin) {
        this.bootstrap = bootstrap;
        this.admin = admin;
    }

    JsonNode run(String operation, JsonNode command) throws Exception {
        String group = command.path("group").asText();
        String topic = command.path("topic").asText();
        switch (operation) {
            case "commit-alone":
                try (KafkaConsumer<byte[], byte[]> consumer = consumer(group)) {
                    Map<TopicPartition, OffsetAndMetadata> offsets = offsets(topic, command.get("offsets"));
                    consumer.assign(offsets.keySet());
                    consumer.commitSync(offsets);
                }
                return NullNode.instance;
            case "committed":
                return committed(group, topic, command.get("partitions"));
            case "groups":
                ArrayNode names = JSON.createArrayNode();
                admin.listConsumerGroups().all().get().forEach(each -> names.add(each.groupId()));
                return names;
            case "group":
                return describe(group);
            case "group-offsets":
                ArrayNode found = JSON.createArrayNode();
                admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().forEach(
                        (at, offset) -> found.addArray().add(at.topic()).add(at.partition()).add(offset.offset()));
                return found;
            case "delete-group":
                return wait(admin.deleteConsumerGroups(List.of(group)).all());
            case "alter-group-offsets":
                return wait(admin.alterConsumerGroupOffsets(group, offsets(topic, command.get("offsets"))).all());
            case "delete-group-offsets":
                Set<TopicPartition> deleted = new HashSet<>(partitions(topic, command.get("partitions")));
                return wait(admin.deleteConsumerGroupOffsets(group, deleted).all());
            case "topic-configs":
                return configs(new ConfigResource(ConfigResource.Type.TOPIC, topic));
            case "broker-configs":
                String broker = admin.describeCluster().nodes().get().iterator().next().idString();
                return configs(new ConfigResource(ConfigResource.Type.BROKER, broker));
            case "set-config":
                return setConfig(topic, command.get("name").asText(), command.get("value"));
            case "add-partitions":
                int total = command.get("total").asInt();
                return wait(admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(total))).all());
            case "delete-records":
                return deleteRecords(topic, command.get("offsets"));
            default:
                throw new IllegalArgumentException(operation);
        }
    }

    private JsonNode committed(String group, String topic, JsonNode wanted) {
        ObjectNode found = JSON.createObjectNode();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(group)) {
            List<TopicPartition> partitions = partitions(topic, wanted);
            Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(new HashSet<>(partitions));
            for (TopicPartition each : partitions) {
                OffsetAndMetadata offset = committed.get(each);
                found.put(String.valueOf(each.partition()), offset == null ? null : (Long) offset.offset());
            }
        }
        return found;
    }

    private JsonNode describe(String group) throws Exception {
        ConsumerGroupDescription description;
        try {
            description = admin.describeConsumerGroups(List.of(group)).describedGroups().get(group).get();
        } catch (java.util.concurrent.ExecutionException error) {
            // DescribeGroups v6 says it with an error, older ones with the state
            if (error.getCause() instanceof GroupIdNotFoundException) {
                ArrayNode dead = JSON.createArrayNode().add("Dead");
                dead.addArray();
                return dead;
            }
            throw error;
        }
        ArrayNode answer = JSON.createArrayNode().add(description.state().toString());
        ArrayNode members = answer.addArray();
        description.members().forEach(member -> {
            ArrayNode held = members.addArray();
            member.assignment().topicPartitions().forEach(each -> held.add(each.partition()));
        });
        return answer;
    }

    private JsonNode configs(ConfigResource resource) throws Exception {
        ObjectNode found = JSON.createObjectNode();
        for (ConfigEntry entry : admin.describeConfigs(List.of(resource)).all().get().get(resource).entries()) {
            found.put(entry.name(), entry.value());
        }
        return found;
    }

    private JsonNode setConfig(String topic, String name, JsonNode value) throws Exception {
        AlterConfigOp.OpType type = value.isNull() ? AlterConfigOp.OpType.DELETE : AlterConfigOp.OpType.SET;
        AlterConfigOp change = new AlterConfigOp(new ConfigEntry(name, value.isNull() ? "" : value.asText()), type);
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        return wait(admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all());
    }

    private JsonNode deleteRecords(String topic, JsonNode before) throws Exception {
        Map<TopicPartition, RecordsToDelete> wanted = new HashMap<>();
        for (Iterator<String> names = before.fieldNames(); names.hasNext(); ) {
            String name = names.next();
            wanted.put(new TopicPartition(topic, Integer.parseInt(name)), RecordsToDelete.beforeOffset(before.get(name).asLong()));
        }
        ObjectNode found = JSON.createObjectNode();
        for (Map.Entry<TopicPartition, KafkaFuture<DeletedRecords>> each : admin.deleteRecords(wanted).lowWatermarks().entrySet()) {
            found.put(String.valueOf(each.getKey().partition()), each.getValue().get().lowWatermark());
        }
        return found;
    }

    private KafkaConsumer<byte[], byte[]> consumer(String group) {
        Map<String, Object> config = Map.of("bootstrap.servers", bootstrap, "group.id", group, "enable.auto.commit", false);
        return new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static JsonNode wait(KafkaFuture<Void> done) throws Exception {
        done.get();
        return NullNode.instance;
    }

    private static List<TopicPartition> partitions(String topic, JsonNode numbers) {
        List<TopicPartition> partitions = new ArrayList<>();
        numbers.forEach(number -> partitions.add(new TopicPartition(topic, number.asInt())));
        return partitions;
    }

    private static Map<TopicPartition, OffsetAndMetadata> offsets(String topic, JsonNode byPartition) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (Iterator<String> names = byPartition.fieldNames(); names.hasNext(); ) {
            String name = names.next();
            offsets.put(new TopicPartition(topic, Integer.parseInt(name)), new OffsetAndMetadata(byPartition.get(name).asLong()));
        }
        return offsets;
    }
}
