// Transactional producers, readers and copiers of sarama on command: one JSON line in, one JSON line out.
package main

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"time"

	"bridge/tests/transactions/lines"

	"github.com/IBM/sarama"
	"github.com/rcrowley/go-metrics"
)

const wait = 60 * time.Second

func settings() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Consumer.MaxWaitTime = 20 * time.Millisecond
	return config
}

// A producer that has its id. Where another instance's transaction is still being aborted, the library gives up soon.
func producer(bootstrap, id string, timeout time.Duration) (sarama.SyncProducer, error) {
	config := settings()
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1
	config.Producer.Transaction.ID = id
	config.Producer.Transaction.Timeout = timeout
	for deadline := time.Now().Add(wait); ; {
		made, err := sarama.NewSyncProducer([]string{bootstrap}, config)
		if !errors.Is(err, sarama.ErrConcurrentTransactions) || time.Now().After(deadline) {
			return made, err
		}
	}
}

func send(producer sarama.SyncProducer, topic string, partition int32, values []string) error {
	messages := []*sarama.ProducerMessage{}
	for _, value := range values {
		messages = append(messages, &sarama.ProducerMessage{Topic: topic, Partition: partition, Value: sarama.StringEncoder(value)})
	}
	err := producer.SendMessages(messages)
	var several sarama.ProducerErrors
	if errors.As(err, &several) {
		return several[0].Err
	}
	return err
}

type reader struct {
	client     sarama.Client
	consumer   sarama.Consumer
	topic      string
	level      sarama.IsolationLevel
	partitions map[int32]sarama.PartitionConsumer
}

func newReader(bootstrap string, asked lines.Command) (*reader, error) {
	config := settings()
	if asked.Committed {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	client, err := sarama.NewClient([]string{bootstrap}, config)
	if err != nil {
		return nil, err
	}
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		return nil, err
	}
	made := &reader{client, consumer, asked.Topic, config.Consumer.IsolationLevel, map[int32]sarama.PartitionConsumer{}}
	for _, partition := range asked.Partitions {
		if made.partitions[partition], err = consumer.ConsumePartition(asked.Topic, partition, sarama.OffsetOldest); err != nil {
			return nil, err
		}
	}
	return made, nil
}

func (r *reader) close() {
	for _, one := range r.partitions {
		_ = one.Close()
	}
	_ = r.consumer.Close()
	_ = r.client.Close()
}

// The library's own look-up takes no level.
func (r *reader) end(partition int32) (int64, error) {
	leader, err := r.client.Leader(r.topic, partition)
	if err != nil {
		return 0, err
	}
	request := &sarama.OffsetRequest{Version: 4, IsolationLevel: r.level}
	request.AddBlock(r.topic, partition, sarama.OffsetNewest, 1)
	answer, err := leader.GetAvailableOffsets(request)
	if err != nil {
		return 0, err
	}
	block := answer.GetBlock(r.topic, partition)
	if block.Err != sarama.ErrNoError {
		return 0, block.Err
	}
	return block.Offsets[0], nil
}

// Where it fetches next: it tells nobody, and records end before an end that was aborted.
func position(consumer sarama.PartitionConsumer) int64 {
	return reflect.ValueOf(consumer).Elem().FieldByName("offset").Int()
}

// How many fetches have been answered: the next one is sent when all messages of the last are handed over.
func (r *reader) fetched() int64 {
	answers, ok := r.client.Config().MetricRegistry.Get("consumer-fetch-response-size").(metrics.Histogram)
	if !ok {
		return 0
	}
	return answers.Count()
}

func (r *reader) read() (any, error) {
	records := [][]any{}
	positions := map[int32]int64{}
	deadline := time.After(wait)
	for partition, consumer := range r.partitions {
		end, err := r.end(partition)
		if err != nil {
			return nil, err
		}
		for there, last := false, int64(0); !there || r.fetched() <= last || len(consumer.Messages()) > 0; {
			if !there && position(consumer) >= end {
				there, last = true, r.fetched()
			}
			select {
			case message := <-consumer.Messages():
				records = append(records, []any{partition, string(message.Value)})
			case <-time.After(time.Millisecond):
			case <-deadline:
				return nil, errors.New("the end is not reached")
			}
		}
		positions[partition] = position(consumer)
	}
	return lines.Seen(records, positions), nil
}

type driver struct {
	bootstrap string
	producers map[string]sarama.SyncProducer
	readers   map[string]*reader
}

func (d *driver) run(asked lines.Command) (any, error) {
	var err error
	switch asked.Op {
	case "producer":
		d.producers[asked.Name], err = producer(d.bootstrap, asked.ID, time.Duration(asked.Timeout)*time.Millisecond)
	case "begin":
		err = d.producers[asked.Name].BeginTxn()
	case "send":
		err = send(d.producers[asked.Name], asked.Topic, asked.Partition, asked.Values)
	case "offsets":
		offsets := map[string][]*sarama.PartitionOffsetMetadata{}
		for partition, offset := range asked.Offsets {
			number, err := strconv.Atoi(partition)
			if err != nil {
				return nil, err
			}
			one := &sarama.PartitionOffsetMetadata{Partition: int32(number), Offset: offset, LeaderEpoch: -1}
			offsets[asked.Topic] = append(offsets[asked.Topic], one)
		}
		err = d.producers[asked.Name].AddOffsetsToTxn(offsets, asked.Group)
	case "commit":
		err = d.producers[asked.Name].CommitTxn()
	case "abort":
		err = d.producers[asked.Name].AbortTxn()
	case "close":
		err = d.producers[asked.Name].Close()
	case "reader":
		d.readers[asked.Name], err = newReader(d.bootstrap, asked)
	case "read":
		return d.readers[asked.Name].read()
	case "close-reader":
		d.readers[asked.Name].close()
	default:
		err = fmt.Errorf("unknown: %s", asked.Op)
	}
	return nil, err
}

func main() {
	running := driver{os.Args[1], map[string]sarama.SyncProducer{}, map[string]*reader{}}
	lines.Serve(running.run, sarama.ErrProducerFenced, sarama.ErrInvalidProducerEpoch)
}
