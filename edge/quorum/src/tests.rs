//! The metadata log and its quorum, on disks in memory.

mod nodes; // nodes in one process, and what lies between them
mod order; // what must be so of each of them

mod alone; // a quorum of one
mod broken_off; // what comes after a change without an end
mod change; // who votes
mod hostile; // what nobody should send
mod observers; // who follows without a vote
mod three; // a quorum of three

mod damage; // a torn end, and what is none
mod fragile; // a disk that forgets
mod power; // what is left of a log when the power goes
mod slow; // a disk that takes its time

mod author; // who writes meanwhile
mod churn; // voters that come, go and lose their power
mod forgetful; // what others lose with a disk that forgets

mod suite; // what the consensus library asks of its storage
