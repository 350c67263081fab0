// Transactional producers, readers and copiers of franz-go on command: one JSON line in, one JSON line out.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"bridge/tests/transactions/lines"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const wait = 60 * time.Second

// A producer that has its id. Where another instance's transaction is still being aborted, the library gives up soon.
func producer(context context.Context, bootstrap, id string, timeout time.Duration) (*kgo.Client, error) {
	for {
		client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.TransactionalID(id), kgo.TransactionTimeout(timeout),
			kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.UnknownTopicRetries(-1), kgo.ProducerLinger(0))
		if err != nil {
			return nil, err
		}
		_, _, err = client.ProducerID(context)
		if err == nil {
			return client, nil
		}
		client.Close()
		if !errors.Is(err, kerr.ConcurrentTransactions) || context.Err() != nil {
			return nil, err
		}
	}
}

type reader struct {
	client    *kgo.Client
	topic     string
	positions map[int32]int64
	committed bool
}

func newReader(bootstrap string, asked lines.Command) (*reader, error) {
	starts, positions := map[int32]kgo.Offset{}, map[int32]int64{}
	for _, partition := range asked.Partitions {
		starts[partition], positions[partition] = kgo.NewOffset().AtStart(), 0
	}
	level := kgo.ReadUncommitted()
	if asked.Committed {
		level = kgo.ReadCommitted()
	}
	// control records are kept, as they alone tell that a position has moved over what was aborted
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.FetchIsolationLevel(level), kgo.KeepControlRecords(),
		kgo.FetchMaxWait(20*time.Millisecond), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{asked.Topic: starts}))
	return &reader{client, asked.Topic, positions, asked.Committed}, err
}

func (r *reader) ends(context context.Context) (map[int32]int64, error) {
	request := kmsg.NewPtrListOffsetsRequest()
	request.ReplicaID = -1
	if r.committed {
		request.IsolationLevel = 1
	}
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = r.topic
	for partition := range r.positions {
		one := kmsg.NewListOffsetsRequestTopicPartition()
		one.Partition, one.Timestamp = partition, -1
		topic.Partitions = append(topic.Partitions, one)
	}
	request.Topics = append(request.Topics, topic)
	ends := map[int32]int64{}
	for _, shard := range r.client.RequestSharded(context, request) {
		if shard.Err != nil {
			return nil, shard.Err
		}
		for _, topic := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, one := range topic.Partitions {
				if err := kerr.ErrorForCode(one.ErrorCode); err != nil {
					return nil, err
				}
				ends[one.Partition] = one.Offset
			}
		}
	}
	return ends, nil
}

func (r *reader) read() (any, error) {
	context, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	ends, err := r.ends(context)
	if err != nil {
		return nil, err
	}
	records := [][]any{}
	for r.behind(ends) {
		fetches := r.client.PollFetches(context)
		if err := fetches.Err0(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(record *kgo.Record) {
			r.positions[record.Partition] = record.Offset + 1
			if !record.Attrs.IsControl() {
				records = append(records, []any{record.Partition, string(record.Value)})
			}
		})
	}
	return lines.Seen(records, r.positions), nil
}

func (r *reader) behind(ends map[int32]int64) bool {
	for partition, end := range ends {
		if r.positions[partition] < end {
			return true
		}
	}
	return false
}

// A member with a producer, by the library's own way: it aborts where the group was rebalanced meanwhile.
type copier struct {
	session *kgo.GroupTransactSession
	target  string
	stop    chan struct{}
	done    chan error
}

func newCopier(bootstrap string, asked lines.Command) (*copier, error) {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(bootstrap), kgo.TransactionalID(asked.ID), kgo.ConsumerGroup(asked.Group),
		kgo.ConsumeTopics(asked.Source), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(200*time.Millisecond),
		kgo.SessionTimeout(10*time.Second), kgo.FetchMaxWait(20*time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.UnknownTopicRetries(-1))
	if err != nil {
		return nil, err
	}
	made := &copier{session, asked.Target, make(chan struct{}), make(chan error, 1)}
	go func() { made.done <- made.copy() }()
	return made, nil
}

func (c *copier) copy() error {
	defer c.session.Close()
	for {
		select {
		case <-c.stop:
			return nil
		default:
		}
		context, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		fetches := c.session.PollRecords(context, 10)
		cancel()
		if fetches.NumRecords() == 0 {
			continue
		}
		if err := c.transact(fetches); err != nil {
			return err
		}
	}
}

func (c *copier) transact(fetches kgo.Fetches) error {
	context, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	if err := c.session.Begin(); err != nil {
		return err
	}
	var sent error
	fetches.EachRecord(func(record *kgo.Record) {
		copied := &kgo.Record{Topic: c.target, Partition: record.Partition, Value: record.Value}
		c.session.Produce(context, copied, func(_ *kgo.Record, err error) {
			if err != nil {
				sent = err
			}
		})
	})
	if err := c.session.Client().Flush(context); err != nil {
		return err
	}
	_, err := c.session.End(context, kgo.TransactionEndTry(sent == nil))
	return err
}

// Offsets of a group without members: the library has a way for members alone. In protocol 2 they tell their transaction
// themselves, as its own do (KIP-890).
func sendOffsets(context context.Context, client *kgo.Client, transactional string, asked lines.Command) error {
	id, epoch, err := client.ProducerID(context)
	if err != nil {
		return err
	}
	commit := kmsg.NewPtrTxnOffsetCommitRequest()
	commit.TransactionalID, commit.ProducerID, commit.ProducerEpoch, commit.Group = transactional, id, epoch, asked.Group
	commit.Generation = -1
	topic := kmsg.NewTxnOffsetCommitRequestTopic()
	topic.Topic = asked.Topic
	for partition, offset := range asked.Offsets {
		number, err := strconv.Atoi(partition)
		if err != nil {
			return err
		}
		one := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		one.Partition, one.Offset = int32(number), offset
		topic.Partitions = append(topic.Partitions, one)
	}
	commit.Topics = append(commit.Topics, topic)
	committed, err := commit.RequestWith(context, client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(committed.Topics[0].Partitions[0].ErrorCode)
}

type driver struct {
	bootstrap string
	producers map[string]*kgo.Client
	ids       map[string]string
	readers   map[string]*reader
	copiers   map[string]*copier
}

func (d *driver) run(asked lines.Command) (any, error) {
	context, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	var err error
	switch asked.Op {
	case "producer":
		var made *kgo.Client
		made, err = producer(context, d.bootstrap, asked.ID, time.Duration(asked.Timeout)*time.Millisecond)
		d.producers[asked.Name], d.ids[asked.Name] = made, asked.ID
	case "begin":
		err = d.producers[asked.Name].BeginTransaction()
	case "send":
		records := []*kgo.Record{}
		for _, value := range asked.Values {
			records = append(records, &kgo.Record{Topic: asked.Topic, Partition: asked.Partition, Value: []byte(value)})
		}
		err = d.producers[asked.Name].ProduceSync(context, records...).FirstErr()
	case "offsets":
		err = sendOffsets(context, d.producers[asked.Name], d.ids[asked.Name], asked)
	case "commit":
		err = d.producers[asked.Name].EndTransaction(context, kgo.TryCommit)
	case "abort":
		err = d.producers[asked.Name].EndTransaction(context, kgo.TryAbort)
	case "close":
		d.producers[asked.Name].Close()
	case "reader":
		d.readers[asked.Name], err = newReader(d.bootstrap, asked)
	case "read":
		return d.readers[asked.Name].read()
	case "close-reader":
		d.readers[asked.Name].client.Close()
	case "copier":
		d.copiers[asked.Name], err = newCopier(d.bootstrap, asked)
	case "close-copier":
		close(d.copiers[asked.Name].stop)
		err = <-d.copiers[asked.Name].done
	default:
		err = fmt.Errorf("unknown: %s", asked.Op)
	}
	return nil, err
}

func main() {
	running := driver{os.Args[1], map[string]*kgo.Client{}, map[string]string{}, map[string]*reader{}, map[string]*copier{}}
	lines.Serve(running.run, kerr.ProducerFenced, kerr.InvalidProducerEpoch)
}
