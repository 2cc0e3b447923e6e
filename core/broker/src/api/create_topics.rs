//! CreateTopics · key 19 · v2..=v7
//!
//! v4 broker's defaults for partitions and replicas · v5 flexible, the answer tells the settings
//! (KIP-525) · v6 throttling · v7 topic id.

use base::{BrokerId, ErrorCode, PartitionIndex};
use controller::{Command, ControllerError, CreateTopics, NewTopic, Outcomes, Reply, TopicCreated};
use metadata::ConfigMap;
use wire::messages::create_topics::{
    CreatableTopic, CreatableTopicConfigs, CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse,
};
use wire::{ApiKey, Decoder};

use super::{Api, read};
use crate::call::{Call, CloseReason, Context, Outcome, ReplyTo, Submission};

/// See the module.
pub const API: Api = Api::new(ApiKey::CreateTopics, 2..=7, handle);

/// What the answer needs of a topic that was asked for.
struct Asked {
    name: String,
    configs: Vec<(String, Option<String>)>,
}

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: CreateTopicsRequest<'_> = read(call, body)?;
    let named = |topic: &CreatableTopic<'_>| {
        let replicas = topic.assignments.iter().map(|assignment| assignment.broker_ids.len() + 1);
        replicas.sum::<usize>() + topic.configs.len() + 1
    };
    super::check_entries(request.topics.iter().map(named).sum())?;
    let host = call.context.host;
    let topics: Vec<NewTopic> = request.topics.iter().map(|topic| new_topic(topic, host.random())).collect();
    let asked: Vec<Asked> = topics
        .iter()
        .map(|topic| Asked { name: topic.name.clone(), configs: topic.configs.clone() })
        .collect();
    let reply = call.reply;
    Ok(Outcome::Submit(Submission {
        command: Command::CreateTopics(CreateTopics { topics, validate_only: request.validate_only }),
        finish: Box::new(move |context, decision| finish(context, reply, &asked, decision)),
    }))
}

fn new_topic(topic: &CreatableTopic<'_>, random: u128) -> NewTopic {
    let brokers = |ids: &[i32]| ids.iter().map(|id| BrokerId(*id)).collect::<Vec<_>>();
    let assignments = topic.assignments.iter();
    NewTopic {
        name: topic.name.to_owned(),
        partitions: topic.num_partitions,
        replication_factor: topic.replication_factor,
        assignments: assignments
            .map(|a| (PartitionIndex(a.partition_index), brokers(&a.broker_ids)))
            .collect(),
        configs: topic.configs.iter().map(|c| (c.name.to_owned(), c.value.map(str::to_owned))).collect(),
        random,
    }
}

fn finish(
    context: &Context<'_>,
    reply: ReplyTo,
    asked: &[Asked],
    decision: Result<Reply, ControllerError>,
) -> Outcome {
    let outcomes: Outcomes<TopicCreated> = match decision {
        Ok(Reply::CreateTopics(outcomes)) => outcomes,
        Ok(_) => unreachable!("a decision answers its command"),
        Err(error) => vec![Err(error); asked.len()],
    };
    let messages: Vec<Option<String>> =
        outcomes.iter().map(|outcome| outcome.as_ref().err().map(super::words)).collect();
    let settings: Vec<Vec<Told>> = asked
        .iter()
        .zip(&outcomes)
        .map(|(asked, outcome)| if outcome.is_ok() { told(context, asked) } else { Vec::new() })
        .collect();
    let topics = asked
        .iter()
        .zip(&outcomes)
        .enumerate()
        .map(|(i, (asked, outcome))| result(&asked.name, outcome, messages[i].as_deref(), &settings[i]))
        .collect();
    reply.answer(&CreateTopicsResponse { topics, ..CreateTopicsResponse::default() })
}

fn result<'a>(
    name: &'a str,
    outcome: &Result<TopicCreated, ControllerError>,
    error_message: Option<&'a str>,
    settings: &'a [Told],
) -> CreatableTopicResult<'a> {
    match outcome {
        Ok(created) => CreatableTopicResult {
            name,
            topic_id: created.id.0,
            num_partitions: created.partitions,
            replication_factor: created.replication_factor,
            configs: Some(settings.iter().map(Told::entry).collect()),
            ..CreatableTopicResult::default()
        },
        Err(error) => CreatableTopicResult {
            name,
            error_code: error.code().code(),
            error_message,
            configs: None,
            topic_config_error_code: ErrorCode::None.code(),
            ..CreatableTopicResult::default()
        },
    }
}

/// A setting of the new topic, as it will be described.
struct Told {
    name: &'static str,
    value: Option<String>,
    source: i8,
}

impl Told {
    fn entry(&self) -> CreatableTopicConfigs<'_> {
        CreatableTopicConfigs {
            name: self.name,
            value: self.value.as_deref(),
            config_source: self.source,
            ..CreatableTopicConfigs::default()
        }
    }
}

fn told(context: &Context<'_>, asked: &Asked) -> Vec<Told> {
    let overrides: ConfigMap =
        asked.configs.iter().filter_map(|(name, value)| Some((name.clone(), value.clone()?))).collect();
    let layers = context.layers();
    metadata::settings::describe_topic(&asked.name, &overrides, layers)
        .map(|described| Told {
            name: described.setting.name,
            value: described.value,
            source: described.source.code(),
        })
        .collect()
}
