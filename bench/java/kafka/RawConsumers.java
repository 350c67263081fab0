import com.fasterxml.jackson.databind.JsonNode;
import java.io.EOFException;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.util.HexFormat;

/**
 * Consumers that are sockets and little else, all on one thread: one Fetch (v11) after another, whose answers are read
 * as far as to know which offsets came. A hundred of Kafka's own would take the processors from what is measured.
 */
final class RawConsumers implements AutoCloseable {
    private static final int SMALL = 64 * 1024;
    /** Length, correlation id, throttle time, error, session. */
    private static final int HEAD = 4 + 4 + 4 + 2 + 4;
    /** Of a batch: up to and with the offset delta of its last record. */
    private static final int BATCH_START = 27;

    private final Deliveries deliveries;
    private final Selector selector = Selector.open();
    private final Thread thread = new Thread(this::run, "consumers");
    private final long[] begin;
    private volatile boolean closed;

    /** `begin`: the offset of each partition from which on all read. */
    RawConsumers(JsonNode command, long[] begin, Deliveries deliveries) throws Exception {
        this.deliveries = deliveries;
        this.begin = begin;
        String[] address = command.get("bootstrap").asText().split(":");
        byte[] frame = HexFormat.of().parseHex(command.get("fetch").asText());
        int[] places = new int[begin.length];
        for (int partition = 0; partition < places.length; partition++) {
            places[partition] = command.get("places").get(partition).asInt();
        }
        for (int number = 0; number < deliveries.consumers; number++) {
            SocketChannel channel =
                SocketChannel.open(new InetSocketAddress(address[0], Integer.parseInt(address[1])));
            channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
            channel.configureBlocking(false);
            Consumer consumer = new Consumer(number, channel, frame, places);
            channel.register(selector, SelectionKey.OP_READ, consumer);
            consumer.ask();
        }
        thread.start();
    }

    @Override
    public void close() throws Exception {
        closed = true;
        selector.wakeup();
        thread.join();
        for (SelectionKey key : selector.keys()) {
            key.channel().close();
        }
        selector.close();
    }

    private void run() {
        try {
            while (!closed) {
                selector.select(key -> {
                    try {
                        ((Consumer) key.attachment()).read();
                    } catch (Exception error) {
                        throw new IllegalStateException(error);
                    }
                });
            }
        } catch (Throwable error) {
            deliveries.fail(error);
        }
    }

    private final class Consumer {
        private final int number;
        private final SocketChannel channel;
        private final ByteBuffer request;
        private final int[] places;
        private final long[] offsets = begin.clone();
        private ByteBuffer answer = ByteBuffer.allocateDirect(SMALL);

        Consumer(int number, SocketChannel channel, byte[] frame, int[] places) {
            this.number = number;
            this.channel = channel;
            this.request = ByteBuffer.allocateDirect(frame.length).put(frame);
            this.places = places;
        }

        void ask() throws Exception {
            for (int partition = 0; partition < places.length; partition++) {
                request.putLong(places[partition], offsets[partition]);
            }
            request.rewind();
            while (request.hasRemaining()) {
                channel.write(request);
            }
        }

        void read() throws Exception {
            if (channel.read(answer) < 0) {
                throw new EOFException("the server hung up");
            }
            if (answer.position() < 4 || answer.position() < 4 + answer.getInt(0)) {
                if (!answer.hasRemaining()) {
                    ByteBuffer larger = ByteBuffer.allocateDirect(4 + answer.getInt(0));
                    larger.put(answer.flip());
                    answer = larger;
                }
                return;
            }
            long now = System.nanoTime();
            take(now);
            answer.clear();
            ask();
        }

        /** One topic; of each partition index, error, watermarks, start, aborted transactions, replica, records. */
        private void take(long now) {
            int at = HEAD + 4;
            at += 2 + answer.getShort(at);
            int count = answer.getInt(at);
            at += 4;
            for (int ignored = 0; ignored < count; ignored++) {
                int partition = answer.getInt(at);
                int error = answer.getShort(at + 4);
                int aborted = answer.getInt(at + 30);
                if (error != 0 || aborted > 0) {
                    throw new IllegalStateException("error " + error + ", aborted transactions " + aborted);
                }
                int size = Math.max(answer.getInt(at + 38), 0);
                at += 42;
                batches(partition, at, at + size, now);
                at += size;
            }
        }

        /** The last batch may be cut off, and is asked for again then. */
        private void batches(int partition, int begins, int ends, long now) {
            long from = offsets[partition];
            for (int at = begins; at + BATCH_START <= ends && at + 12 + answer.getInt(at + 8) <= ends;
                    at += 12 + answer.getInt(at + 8)) {
                offsets[partition] = answer.getLong(at) + answer.getInt(at + 23) + 1;
            }
            deliveries.arrived(number, partition, from - begin[partition], offsets[partition] - begin[partition], now);
        }
    }
}
