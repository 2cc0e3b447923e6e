// The franz-go driver.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"vltava/conformance/protocol"
)

type client struct {
	base  []kgo.Opt
	admin *kadm.Client
}

func main() {
	base := []kgo.Opt{kgo.SeedBrokers(strings.Split(os.Args[1], ",")...), kgo.ClientID(os.Args[2])}
	shared, err := kgo.NewClient(base...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	protocol.Serve("franz-go "+protocol.Version("github.com/twmb/franz-go"), &client{base, kadm.NewClient(shared)})
}

func patience() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), protocol.Patience)
}

func (c *client) Create(command *protocol.Command) error {
	ctx, cancel := patience()
	defer cancel()
	configs := map[string]*string{}
	for name, value := range command.Configs {
		configs[name] = &value
	}
	answer, err := c.admin.CreateTopic(ctx, command.Partitions, -1, configs, command.Topic)
	if err != nil {
		return err
	}
	return answer.Err
}

func (c *client) Partitions(command *protocol.Command) (int, error) {
	ctx, cancel := patience()
	defer cancel()
	topics, err := c.admin.ListTopics(ctx, command.Topic)
	if err != nil {
		return 0, err
	}
	topic := topics[command.Topic]
	return len(topic.Partitions), topic.Err
}

var acks = map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

func (c *client) Send(command *protocol.Command, records []protocol.Record) ([]int64, error) {
	options := append([]kgo.Opt{
		kgo.RequiredAcks(acks[command.Acks]),
		kgo.ProducerBatchCompression(codecs[command.Compression]),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MaxBufferedRecords(len(records) + 1),
	}, c.base...)
	if command.BatchBytesMax > 0 {
		options = append(options, kgo.ProducerBatchMaxBytes(int32(command.BatchBytesMax)))
	}
	if !command.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	producer, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	ctx, cancel := patience()
	defer cancel()
	sent := make([]*kgo.Record, len(records))
	for i, r := range records {
		sent[i] = &kgo.Record{Topic: command.Topic, Partition: command.Partition, Key: r.Key, Value: r.Value}
		if r.Timestamp != nil {
			sent[i].Timestamp = time.UnixMilli(*r.Timestamp)
		}
		for _, h := range r.Headers {
			sent[i].Headers = append(sent[i].Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
		}
	}
	if err := producer.ProduceSync(ctx, sent...).FirstErr(); err != nil {
		return nil, err
	}
	offsets := make([]int64, len(sent))
	for i, r := range sent {
		offsets[i] = r.Offset
	}
	return offsets, nil
}

// Place leaves the choice to its default partitioner.
func (c *client) Place(command *protocol.Command) ([]int32, error) {
	producer, err := kgo.NewClient(c.base...)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	ctx, cancel := patience()
	defer cancel()
	sent := make([]*kgo.Record, len(command.Keys))
	for i, key := range command.Keys {
		sent[i] = &kgo.Record{Topic: command.Topic, Key: key}
	}
	if err := producer.ProduceSync(ctx, sent...).FirstErr(); err != nil {
		return nil, err
	}
	partitions := make([]int32, len(sent))
	for i, r := range sent {
		partitions[i] = r.Partition
	}
	return partitions, nil
}

func (c *client) Read(command *protocol.Command, each func(protocol.Record)) error {
	at := kgo.NewOffset()
	if command.Offset != nil {
		at = at.At(*command.Offset)
	} else {
		at = at.AfterMilli(*command.Timestamp)
	}
	consumer, err := kgo.NewClient(append([]kgo.Opt{
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{command.Topic: {command.Partition: at}}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxPartitionBytes(protocol.FetchBytesMax),
		kgo.FetchMaxWait(100 * time.Millisecond),
	}, c.base...)...)
	if err != nil {
		return err
	}
	defer consumer.Close()
	ctx, cancel := patience()
	defer cancel()
	for left := command.Count; left > 0; {
		fetches := consumer.PollRecords(ctx, left)
		if err := fetches.Err(); err != nil {
			return err
		}
		left -= fetches.NumRecords()
		fetches.EachRecord(func(r *kgo.Record) { each(record(r)) })
	}
	return nil
}

func record(r *kgo.Record) protocol.Record {
	at := r.Timestamp.UnixMilli()
	headers := make([]protocol.Header, len(r.Headers))
	for i, h := range r.Headers {
		headers[i] = protocol.Header{Name: h.Key, Value: h.Value}
	}
	return protocol.Record{Offset: r.Offset, Timestamp: &at, Key: r.Key, Value: r.Value, Headers: headers}
}

func (c *client) OffsetForTime(command *protocol.Command) (int64, error) {
	ctx, cancel := patience()
	defer cancel()
	listed, err := c.admin.ListOffsetsAfterMilli(ctx, *command.Timestamp, command.Topic)
	if err != nil {
		return 0, err
	}
	found, err := of(listed, command)
	// For "no such record" kadm answers the end of the partition, with no timestamp.
	if found.Timestamp < 0 {
		return -1, err
	}
	return found.Offset, err
}

func (c *client) Offsets(command *protocol.Command) (start, end int64, err error) {
	ctx, cancel := patience()
	defer cancel()
	starts, err := c.admin.ListStartOffsets(ctx, command.Topic)
	if err != nil {
		return 0, 0, err
	}
	ends, err := c.admin.ListEndOffsets(ctx, command.Topic)
	if err != nil {
		return 0, 0, err
	}
	first, err := of(starts, command)
	if err != nil {
		return 0, 0, err
	}
	last, err := of(ends, command)
	return first.Offset, last.Offset, err
}

func of(listed kadm.ListedOffsets, command *protocol.Command) (kadm.ListedOffset, error) {
	found, exists := listed.Lookup(command.Topic, command.Partition)
	if !exists {
		return found, fmt.Errorf("%s-%d was not answered", command.Topic, command.Partition)
	}
	return found, found.Err
}
