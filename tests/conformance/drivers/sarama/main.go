// The sarama driver. Argument 3 is "default" or "max": the protocol versions that sarama is told to speak.
package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/IBM/sarama"

	"vltava/conformance/protocol"
)

type client struct{ version sarama.KafkaVersion }

func main() {
	c := &client{sarama.DefaultVersion}
	if len(os.Args) > 3 && os.Args[3] == "max" {
		c.version = sarama.MaxVersion
	}
	name := fmt.Sprintf("sarama %s as %s", protocol.Version("github.com/IBM/sarama"), c.version)
	protocol.Serve(name, c)
}

func (c *client) config() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = c.version
	config.ClientID = os.Args[2]
	config.Consumer.Fetch.Default = protocol.FetchBytesMax
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	config.Consumer.Return.Errors = true
	return config
}

func brokers() []string { return strings.Split(os.Args[1], ",") }

func (c *client) Create(command *protocol.Command) error {
	admin, err := sarama.NewClusterAdmin(brokers(), c.config())
	if err != nil {
		return err
	}
	defer admin.Close()
	configs := map[string]*string{}
	for name, value := range command.Configs {
		configs[name] = &value
	}
	detail := sarama.TopicDetail{NumPartitions: command.Partitions, ReplicationFactor: -1, ConfigEntries: configs}
	return admin.CreateTopic(command.Topic, &detail, false)
}

func (c *client) Partitions(command *protocol.Command) (int, error) {
	plain, err := sarama.NewClient(brokers(), c.config())
	if err != nil {
		return 0, err
	}
	defer plain.Close()
	partitions, err := plain.Partitions(command.Topic)
	return len(partitions), err
}

var acks = map[string]sarama.RequiredAcks{"0": sarama.NoResponse, "1": sarama.WaitForLocal, "all": sarama.WaitForAll}

func (c *client) Send(command *protocol.Command, records []protocol.Record) ([]int64, error) {
	config := c.config()
	config.Producer.RequiredAcks = acks[command.Acks]
	if command.BatchBytesMax > 0 {
		config.Producer.MaxMessageBytes = command.BatchBytesMax
	}
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	if err := config.Producer.Compression.UnmarshalText([]byte(command.Compression)); err != nil {
		return nil, err
	}
	if command.Idempotent {
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1
		// By default it gives up before another leads.
		config.Producer.Retry.Max = 100
	}
	producer, err := sarama.NewSyncProducer(brokers(), config)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	sent := make([]*sarama.ProducerMessage, len(records))
	for i, r := range records {
		sent[i] = message(command, r)
	}
	if err := producer.SendMessages(sent); err != nil {
		return nil, err
	}
	offsets := make([]int64, len(sent))
	for i, m := range sent {
		offsets[i] = m.Offset
	}
	return offsets, nil
}

func message(command *protocol.Command, r protocol.Record) *sarama.ProducerMessage {
	m := &sarama.ProducerMessage{Topic: command.Topic, Partition: command.Partition}
	if r.Key != nil {
		m.Key = sarama.ByteEncoder(r.Key)
	}
	if r.Value != nil {
		m.Value = sarama.ByteEncoder(r.Value)
	}
	if r.Timestamp != nil {
		m.Timestamp = time.UnixMilli(*r.Timestamp)
	}
	for _, h := range r.Headers {
		m.Headers = append(m.Headers, sarama.RecordHeader{Key: []byte(h.Name), Value: h.Value})
	}
	return m
}

func (c *client) Read(command *protocol.Command, each func(protocol.Record)) error {
	at, err := c.start(command)
	if err != nil {
		return err
	}
	consumer, err := sarama.NewConsumer(brokers(), c.config())
	if err != nil {
		return err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(command.Topic, command.Partition, at)
	if err != nil {
		return err
	}
	defer partition.Close()
	late := time.After(protocol.Patience)
	for left := command.Count; left > 0; left-- {
		select {
		case m := <-partition.Messages():
			each(record(m))
		case err := <-partition.Errors():
			return err
		case <-late:
			return fmt.Errorf("%d records did not come", left)
		}
	}
	return nil
}

func (c *client) start(command *protocol.Command) (int64, error) {
	if command.Offset != nil {
		return *command.Offset, nil
	}
	return c.OffsetForTime(command)
}

func record(m *sarama.ConsumerMessage) protocol.Record {
	at := m.Timestamp.UnixMilli()
	headers := make([]protocol.Header, len(m.Headers))
	for i, h := range m.Headers {
		headers[i] = protocol.Header{Name: string(h.Key), Value: h.Value}
	}
	return protocol.Record{Offset: m.Offset, Timestamp: &at, Key: m.Key, Value: m.Value, Headers: headers}
}

func (c *client) ask(command *protocol.Command, times ...int64) ([]int64, error) {
	plain, err := sarama.NewClient(brokers(), c.config())
	if err != nil {
		return nil, err
	}
	defer plain.Close()
	offsets := make([]int64, len(times))
	for i, at := range times {
		if offsets[i], err = plain.GetOffset(command.Topic, command.Partition, at); err != nil {
			return nil, err
		}
	}
	return offsets, nil
}

func (c *client) OffsetForTime(command *protocol.Command) (int64, error) {
	offsets, err := c.ask(command, *command.Timestamp)
	if err != nil {
		return 0, err
	}
	return offsets[0], nil
}

func (c *client) Offsets(command *protocol.Command) (start, end int64, err error) {
	offsets, err := c.ask(command, sarama.OffsetOldest, sarama.OffsetNewest)
	if err != nil {
		return 0, 0, err
	}
	return offsets[0], offsets[1], nil
}
