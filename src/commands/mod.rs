//! What each verb does.

pub(crate) mod bench;
pub(crate) mod build;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod doctor;
pub(crate) mod engine;
pub(crate) mod export;
pub(crate) mod families;
pub(crate) mod fetch;
pub(crate) mod forecast;
pub(crate) mod generate;
pub(crate) mod golden;
pub(crate) mod import;
pub(crate) mod inspect;
mod inspect_plan;
pub(crate) mod run;
pub(crate) mod sign;
pub(crate) mod verify;
