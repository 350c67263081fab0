import com.fasterxml.jackson.databind.JsonNode;
import java.io.EOFException;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.zip.CRC32C;

/**
 * Producers that are sockets and little else, all on one thread: each sends one record (Produce v8, acks=all) after the
 * answer to the last, idempotent or not. A hundred of Kafka's own would take the processors from what is measured.
 */
final class RawProducers {
    private static final short PRODUCE = 0;
    private static final short METADATA = 3;
    private static final short PRODUCE_VERSION = 8;
    private static final short INIT_PRODUCER_ID = 22;
    private static final short COORDINATOR_LOAD_IN_PROGRESS = 14;
    private static final short NOT_LEADER_OR_FOLLOWER = 6;
    private static final int CRC_AT = 17;
    private static final int CRC_FROM = 21;
    private static final int SEQUENCE_AT = 53;

    private final String topic;
    private final long from;
    private final long until;
    private final List<Long> latencies = new ArrayList<>();

    private RawProducers(String topic, long from, long until) {
        this.topic = topic;
        this.from = from;
        this.until = until;
    }

    /** Rate, and milliseconds from a request to its answer, once `warm_seconds` are over. */
    static Map<String, Object> run(JsonNode command) throws Exception {
        boolean idempotent = command.get("idempotent").asBoolean();
        double seconds = command.get("seconds").asDouble();
        String topic = command.get("topic").asText();
        InetSocketAddress[] leaders = leaders(command.get("bootstrap").asText(), topic);
        List<SocketChannel> channels = new ArrayList<>();
        List<byte[]> producers = new ArrayList<>();
        try (Selector selector = Selector.open()) {
            for (int number = 0; number < command.get("connections").asInt(); number++) {
                SocketChannel channel = SocketChannel.open(leaders[number % leaders.length]);
                channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
                channels.add(channel);
                producers.add(idempotent ? producer(channel) : null);
            }
            long begin = System.nanoTime();
            long warm = begin + (long) (command.get("warm_seconds").asDouble() * 1e9);
            RawProducers all = new RawProducers(topic, warm, warm + (long) (seconds * 1e9));
            for (int number = 0; number < channels.size(); number++) {
                SocketChannel channel = channels.get(number);
                channel.configureBlocking(false);
                Producer one = all.new Producer(
                    channel, number % leaders.length, command.get("size").asInt(), producers.get(number));
                channel.register(selector, SelectionKey.OP_READ, one);
                one.send();
            }
            while (System.nanoTime() < all.until) {
                selector.select(key -> {
                    try {
                        ((Producer) key.attachment()).read();
                    } catch (Exception error) {
                        throw new IllegalStateException(error);
                    }
                }, 100);
            }
            return all.result(seconds);
        } finally {
            for (SocketChannel channel : channels) {
                channel.close();
            }
        }
    }

    private Map<String, Object> result(double seconds) {
        long[] sorted = latencies.stream().mapToLong(Long::longValue).sorted().toArray();
        return Map.of(
            "rate", sorted.length / seconds,
            "p50", sorted[sorted.length / 2] / 1e6,
            "p99", sorted[sorted.length * 99 / 100] / 1e6);
    }

    /** Where each partition is led: Metadata (v1) of the topic, asked until all have a leader. */
    private static InetSocketAddress[] leaders(String bootstrap, String topic) throws Exception {
        String[] address = bootstrap.split(":");
        byte[] name = topic.getBytes(StandardCharsets.UTF_8);
        ByteBuffer request = ByteBuffer.allocate(4 + 8 + 2 + 4 + 2 + name.length);
        request.putInt(request.capacity() - 4).putShort(METADATA).putShort((short) 1).putInt(0).putShort((short) -1);
        request.putInt(1).putShort((short) name.length).put(name);
        try (SocketChannel channel =
            SocketChannel.open(new InetSocketAddress(address[0], Integer.parseInt(address[1])))) {
            for (int tries = 0; tries < 100; tries++) {
                InetSocketAddress[] found = leaders(ask(channel, request));
                if (found.length > 0 && !Arrays.asList(found).contains(null)) {
                    return found;
                }
                Thread.sleep(100);
            }
        }
        throw new IllegalStateException("not all partitions of " + topic + " have a leader");
    }

    private static InetSocketAddress[] leaders(ByteBuffer answer) {
        answer.getInt(); // correlation id
        Map<Integer, InetSocketAddress> brokers = new HashMap<>();
        for (int left = answer.getInt(); left > 0; left--) {
            int id = answer.getInt();
            brokers.put(id, new InetSocketAddress(string(answer), answer.getInt()));
            string(answer); // rack
        }
        answer.getInt(); // controller
        answer.getInt(); // one topic
        answer.getShort(); // its error, with which it has no partitions
        string(answer);
        answer.get();
        InetSocketAddress[] leaders = new InetSocketAddress[answer.getInt()];
        for (int left = leaders.length; left > 0; left--) {
            answer.getShort();
            int partition = answer.getInt();
            leaders[partition] = brokers.get(answer.getInt());
            skip(answer); // replicas
            skip(answer); // in sync
        }
        return leaders;
    }

    private static void skip(ByteBuffer from) {
        int count = from.getInt();
        from.position(from.position() + 4 * count);
    }

    private static String string(ByteBuffer from) {
        byte[] bytes = new byte[Math.max(from.getShort(), 0)];
        from.get(bytes);
        return new String(bytes, StandardCharsets.UTF_8);
    }

    /** The answer to a request, without its length. */
    private static ByteBuffer ask(SocketChannel channel, ByteBuffer request) throws Exception {
        write(channel, request);
        ByteBuffer length = ByteBuffer.allocate(4);
        fill(channel, length);
        ByteBuffer answer = ByteBuffer.allocate(length.getInt(0));
        fill(channel, answer);
        return answer.flip();
    }

    private static void write(SocketChannel channel, ByteBuffer request) throws Exception {
        request.rewind();
        while (request.hasRemaining()) {
            channel.write(request);
        }
    }

    private static void fill(SocketChannel channel, ByteBuffer into) throws Exception {
        while (into.hasRemaining()) {
            if (channel.read(into) < 0) {
                throw new EOFException("the server hung up");
            }
        }
    }

    /** InitProducerId (v0): the id and the epoch as they stand in a batch. */
    private static byte[] producer(SocketChannel channel) throws Exception {
        ByteBuffer request = ByteBuffer.allocate(4 + 8 + 2 + 2 + 4);
        request.putInt(request.capacity() - 4).putShort(INIT_PRODUCER_ID).putShort((short) 0).putInt(0);
        request.putShort((short) -1).putShort((short) -1).putInt(60_000);
        ByteBuffer answer = ask(channel, request);
        for (int tries = 0; answer.getShort(8) == COORDINATOR_LOAD_IN_PROGRESS && tries < 100; tries++) {
            Thread.sleep(100);
            answer = ask(channel, request);
        }
        if (answer.getShort(8) != 0) {
            throw new IllegalStateException("InitProducerId: error " + answer.getShort(8));
        }
        return Arrays.copyOfRange(answer.array(), 10, 20);
    }

    private final class Producer {
        private final SocketChannel channel;
        private final boolean idempotent;
        private final ByteBuffer request;
        private final int batch;
        private final ByteBuffer answer = ByteBuffer.allocateDirect(1024);
        private final CRC32C crc = new CRC32C();
        private int sequence;
        private long sent;

        Producer(SocketChannel channel, int partition, int size, byte[] producer) {
            this.channel = channel;
            this.idempotent = producer != null;
            byte[] name = topic.getBytes(StandardCharsets.UTF_8);
            ByteBuffer record = record(size);
            int records = 61 + record.remaining();
            batch = 4 + 8 + 2 + 2 + 2 + 4 + 4 + 2 + name.length + 4 + 4 + 4;
            request = ByteBuffer.allocateDirect(batch + records);
            request.putInt(request.capacity() - 4).putShort(PRODUCE).putShort(PRODUCE_VERSION).putInt(0);
            request.putShort((short) -1); // no client id
            request.putShort((short) -1).putShort((short) -1).putInt(30_000); // transactional id, acks, timeout
            request.putInt(1).putShort((short) name.length).put(name).putInt(1).putInt(partition).putInt(records);
            long now = System.currentTimeMillis();
            request.putLong(0).putInt(records - 12).putInt(-1).put((byte) 2).putInt(0).putShort((short) 0).putInt(0);
            request.putLong(now).putLong(now);
            request.put(producer != null ? producer : new byte[] {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1});
            request.putInt(idempotent ? 0 : -1).putInt(1).put(record);
            seal();
        }

        /** Attributes, deltas, no key, the value, no headers. */
        private ByteBuffer record(int size) {
            ByteBuffer body = ByteBuffer.allocate(size + 32).put((byte) 0).put((byte) 0).put((byte) 0).put((byte) 1);
            varint(body, size);
            body.put(new byte[size]).put((byte) 0).flip();
            ByteBuffer record = ByteBuffer.allocate(size + 40);
            varint(record, body.remaining());
            return record.put(body).flip();
        }

        private void varint(ByteBuffer into, int value) {
            for (int left = value << 1; ; left >>>= 7) {
                if (left < 0x80) {
                    into.put((byte) left);
                    return;
                }
                into.put((byte) (left & 0x7f | 0x80));
            }
        }

        private void seal() {
            crc.reset();
            crc.update(request.duplicate().position(batch + CRC_FROM).limit(request.capacity()));
            request.putInt(batch + CRC_AT, (int) crc.getValue());
        }

        void send() throws Exception {
            if (idempotent) {
                request.putInt(batch + SEQUENCE_AT, sequence++);
                seal();
            }
            write();
        }

        private void write() throws Exception {
            sent = System.nanoTime();
            RawProducers.write(channel, request);
        }

        void read() throws Exception {
            if (channel.read(answer) < 0) {
                throw new EOFException("the server hung up");
            }
            if (answer.position() < 4 || answer.position() < 4 + answer.getInt(0)) {
                return;
            }
            long now = System.nanoTime();
            short error = answer.getShort(4 + 4 + 4 + 2 + topic.length() + 4 + 4);
            answer.clear();
            if (error == NOT_LEADER_OR_FOLLOWER && now < from) { // Kafka has created the topic before its broker leads it
                Thread.sleep(20);
                write();
                return;
            }
            if (error != 0) {
                throw new IllegalStateException("Produce: error " + error);
            }
            if (now > from && now < until) {
                latencies.add(now - sent);
            }
            send();
        }
    }
}
