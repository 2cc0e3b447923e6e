//! Kafka's own tools against the node, and each other's files.
//!
//! The tools share one Java and so take turns.

mod adopt;
mod cluster;
mod configs;
mod connect;
mod console;
mod dump;
mod groups;
mod records;
mod streams;
mod toolbox; // start here
mod topics;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use libtest_mimic::Arguments;
use vltava_conformance::Program;
use vltava_conformance::suite;

use toolbox::Toolbox;

type Story = fn(&Toolbox) -> Result<()>;

const STORIES: &[(&str, Story)] = &[
    ("topic_command", topics::topic_command),
    ("config_command_topic", configs::of_topic),
    ("config_command_broker", configs::of_broker),
    ("get_offset_shell", records::get_offset_shell),
    ("delete_records_command", records::delete_records_command),
    ("log_dirs_command", topics::log_dirs_command),
    ("cluster_tool", topics::cluster_tool),
    ("console", console::console),
    ("producer_performance", console::producer_performance),
    ("dump_log_segments", dump::dump_log_segments),
    ("a_directory_that_kafka_wrote", adopt::a_directory_that_kafka_wrote),
    ("groups::consumer_group_command", groups::consumer_group_command),
    ("groups::reset_offsets", groups::reset_offsets),
    ("groups::config_command", configs::of_group),
    ("groups::dump_log_segments", groups::dump_log_segments),
    ("groups::console_consumer", groups::console_consumer),
    ("groups::verifiable_consumer", groups::verifiable_consumer),
    ("groups::streams_word_count", streams::word_count),
    ("groups::connect_standalone", connect::standalone),
    ("groups::connect_distributed", connect::distributed),
];

/// On three nodes of ours, whatever the others are told on.
const STORIES_OF_A_CLUSTER: &[(&str, Story)] = &[
    ("cluster::topics_have_three_replicas", cluster::topics_have_three_replicas),
    ("cluster::reassign_partitions_command", cluster::reassign_partitions_command),
    ("cluster::leader_election_command", cluster::leader_election_command),
    ("cluster::metadata_quorum_command", cluster::metadata_quorum_command),
    ("cluster::feature_command", cluster::feature_command),
    ("cluster::cluster_tool", cluster::cluster_tool),
    ("cluster::streams_word_count", streams::word_count),
    ("cluster::connect_standalone", connect::standalone),
    ("cluster::connect_distributed", connect::distributed),
];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let program = Program::from_env();
    if let (false, Err(error)) = (arguments.list, &program) {
        eprintln!("{error:#}");
        return ExitCode::FAILURE;
    }
    let toolbox = Arc::new(Toolbox::default());
    let started = Instant::now();
    let trial = |toolbox: &Arc<Toolbox>, name: &str, story: Story, applies: bool| {
        suite::trial(toolbox, name, story).with_ignored_flag(!applies)
    };
    let on_one = STORIES.iter();
    let on_one =
        on_one.map(|&(name, story)| trial(&toolbox, name, story, applies(name, program.as_ref().ok())));
    let ours = match &program {
        Ok(Program::Vltava(binary) | Program::Cluster(binary)) => Some(binary.clone()),
        _ => None,
    };
    let cluster = Arc::new(toolbox.beside(Program::Cluster(ours.clone().unwrap_or_default())));
    let on_three = STORIES_OF_A_CLUSTER.iter();
    let on_three = on_three.map(|&(name, story)| trial(&cluster, name, story, ours.is_some()));
    let conclusion = libtest_mimic::run(&arguments, on_one.chain(on_three).collect());
    for words in [&toolbox, &cluster].into_iter().flat_map(|it| it.suite.end(conclusion.has_failed())) {
        eprintln!("{words}");
    }
    eprintln!("{:.1} s", started.elapsed().as_secs_f32());
    conclusion.exit_code()
}

/// Files can be looked at only where a node's directory is ours, and only our node adopts a directory that
/// its metadata does not know.
fn applies(story: &str, program: Option<&Program>) -> bool {
    match story {
        "dump_log_segments" | "groups::dump_log_segments" => !matches!(program, Some(Program::Given(_))),
        "a_directory_that_kafka_wrote" => matches!(program, None | Some(Program::Vltava(_))),
        _ => true,
    }
}
