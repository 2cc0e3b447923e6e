// The kafkajs driver: groups alone. Speaks ../PROTOCOL.md.
"use strict";

const readline = require("node:readline");
const { Kafka, logLevel } = require("kafkajs");

const [bootstrap, clientId] = process.argv.slice(2);
const kafka = new Kafka({ brokers: bootstrap.split(","), clientId, logLevel: logLevel.ERROR, logCreator });
const admin = kafka.admin();

// It would log to stdout, which is the protocol's.
function logCreator() {
  return ({ namespace, label, log }) => console.error(`${label} ${namespace} ${log.message} ${log.error ?? ""}`);
}

// The one member of this driver.
let member = null;

async function join({ group, topic, reset, session_ms, heartbeat_ms }) {
  const consumer = kafka.consumer({
    groupId: group,
    sessionTimeout: session_ms,
    heartbeatInterval: heartbeat_ms,
    maxWaitTimeInMs: 100,
    retry: { initialRetryTime: 100 },
  });
  const joined = { consumer, topic, events: [], records: [], held: [], error: null };
  member = joined;
  const giveUp = () => {
    if (joined.held.length > 0) joined.events.push({ revoked: joined.held });
    joined.held = [];
  };
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    giveUp();
    joined.held = payload.memberAssignment[topic] ?? [];
    joined.events.push({ assigned: joined.held });
  });
  consumer.on(consumer.events.REBALANCING, giveUp);
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    giveUp();
    // After what may pass it joins again by itself.
    if (!payload.restart) joined.error = payload.error;
  });
  const eachMessage = async ({ partition, message }) => {
    joined.records.push({ partition, offset: Number(message.offset) });
  };
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: reset === "earliest" });
  await consumer.run({ autoCommit: false, eachMessage });
  return {};
}

async function answer() {
  if (member.error !== null) throw member.error;
  return { events: member.events, records: member.records };
}

async function commit({ offsets }) {
  const { consumer, topic } = member;
  const at = offsets.map((offset, partition) => ({ topic, partition, offset: String(offset) }));
  await consumer.commitOffsets(at.filter((_, partition) => offsets[partition] !== null));
  return {};
}

async function committed({ group, topic, partitions }) {
  const [found] = await admin.fetchOffsets({ groupId: group, topics: [topic] });
  const offsets = Array(partitions).fill(null);
  for (const { partition, offset } of found.partitions) {
    if (Number(offset) >= 0) offsets[partition] = Number(offset);
  }
  return { offsets };
}

async function leave() {
  await member.consumer.disconnect();
  return {};
}

const ops = { join, member: answer, commit, committed, leave };

async function main() {
  const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");
  await admin.connect();
  say({ ready: `kafkajs ${require("kafkajs/package.json").version}` });
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    try {
      say(await ops[command.op](command));
    } catch (error) {
      say({ error: String(error) });
    }
  }
  process.exit(0);
}

main();
