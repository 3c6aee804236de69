//! What every implementation of `Repository` must do. The suite has one file per resource; to run it on
//! another implementation, add a module at the end of this file.

#[path = "datasets.rs"]
mod datasets;
#[path = "gates.rs"]
mod gates;
#[path = "imports.rs"]
mod imports;
#[path = "jobs.rs"]
mod jobs;
#[path = "leases.rs"]
mod leases;
#[path = "ledger.rs"]
mod ledger;
#[path = "others.rs"]
mod others;
#[path = "policies.rs"]
mod policies;
#[path = "webhooks.rs"]
mod webhooks;

use std::any::Any;
use std::sync::Arc;

use guarantor::store::{Postgres, Repository, Sqlite};

/// A repository, and whatever must be kept as long as it is used.
pub struct Fixture {
    pub repository: Arc<dyn Repository>,
    _keep: Box<dyn Any>,
}

macro_rules! conformance {
    ($implementation:ident, $($module:ident :: { $($test:ident),* $(,)? }),* $(,)?) => {
        $($(
            #[tokio::test]
            async fn $test() {
                let Some(fixture) = super::$implementation().await else { return };
                crate::conformance::$module::$test(&*fixture.repository).await;
            }
        )*)*
    };
}

macro_rules! every_test {
    ($implementation:ident) => {
        conformance!(
            $implementation,
            datasets::{
                a_dataset_is_read_back,
                a_name_may_be_any_text,
                a_dataset_id_is_taken_once,
                versions_follow_each_other,
                other_workspaces_do_not_see_datasets,
                datasets_are_listed_newest_first,
                a_dataset_is_deleted_when_no_job_needs_it,
                a_dataset_names_a_policy_that_is_there,
                a_version_may_have_parts_of_its_own,
                looks_and_unfinished_jobs_have_seen_rows,
                rows_of_another_dataset_were_seen_there,
                a_version_is_found_by_its_part,
                additions_of_candidates_are_counted,
            },
            imports::{
                an_import_is_read_back,
                a_workspace_has_few_unfinished_imports,
                workspaces_take_turns_with_imports,
                an_import_ends_with_its_dataset,
                a_lost_lease_stores_no_dataset,
                a_canceled_import_stores_no_dataset,
                an_import_is_given_up_after_its_last_attempt,
            },
            policies::{
                a_policy_is_read_back,
                policies_are_listed_newest_first,
                a_policy_in_use_is_not_deleted,
            },
            gates::{
                a_gate_is_read_back_and_changed,
                a_name_is_taken_once_in_a_workspace,
                other_workspaces_do_not_see_gates,
                gates_are_listed_newest_first,
                a_gate_asks_about_the_job_that_ended_last,
                a_gate_finds_its_job_behind_many_others,
                a_token_belongs_to_one_gate_until_it_is_revoked,
                gates_and_tokens_have_limits,
            },
            jobs::{
                a_job_is_read_back,
                a_job_needs_its_inputs,
                a_job_needs_the_version_that_it_was_resolved_for,
                the_queue_has_limits,
                jobs_are_filtered,
                jobs_are_listed_by_decision_in_both_orders,
                a_foreign_cursor_is_rejected,
                a_queued_job_is_canceled_at_once,
                a_running_job_is_asked_to_stop,
                events_are_resumed,
                the_queue_knows_its_depth,
            },
            leases::{
                jobs_are_claimed_in_order,
                workspaces_take_turns,
                a_success_writes_everything,
                parameters_keep_their_descent,
                a_lost_lease_writes_nothing,
                attempts_are_bounded,
                a_release_does_not_count,
                a_canceled_job_is_not_requeued,
                a_success_after_a_cancellation_is_canceled,
                progress_changes_the_revision,
                old_progress_is_forgotten,
            },
            ledger::{
                looks_add_up,
                datasets_with_the_same_rows_have_one_ledger,
                ledgers_become_one,
                a_family_is_one_on_all_datasets_of_a_ledger,
                the_same_certificate_again_is_free,
                a_family_has_a_limited_number_of_looks,
                only_success_is_a_look,
                a_bound_that_was_shown_is_a_look,
                a_look_outlives_its_job_and_its_dataset,
                other_workspaces_do_not_see_looks,
                a_look_is_signed_as_it_will_be_shown,
                signing_keys_are_remembered,
            },
            webhooks::{
                a_webhook_is_read_back_and_changed,
                other_workspaces_do_not_see_webhooks,
                webhooks_and_deliveries_are_listed_newest_first,
                a_secret_is_rotated,
                every_end_of_a_job_is_an_event,
                webhooks_are_told_what_they_asked_for,
                attempts_are_recorded,
                a_disabled_webhook_waits_and_a_busy_one_leaves_room,
                old_deliveries_are_swept,
            },
            others::{
                keys_are_found_until_revoked,
                keys_keep_their_role,
                an_answer_is_repeated,
                an_unanswered_request_is_taken_over,
                an_abandoned_request_starts_again,
                retention_removes_jobs_and_their_files,
                unnamed_blobs_are_found,
            },
        );
    };
}

mod on_sqlite {
    use super::*;

    pub async fn sqlite() -> Option<Fixture> {
        let directory = tempfile::tempdir().unwrap();
        let repository = Sqlite::open(&directory.path().join("test.sqlite")).await.unwrap();
        Some(Fixture { repository: Arc::new(repository), _keep: Box::new(directory) })
    }

    mod suite {
        every_test!(sqlite);
    }
}

mod on_postgres {
    use super::*;

    pub async fn postgres() -> Option<Fixture> {
        if crate::postgres::is_left_out() {
            return None;
        }
        let url = crate::postgres::shared().database().await;
        let repository = Postgres::open(&url, 4).await.unwrap();
        Some(Fixture { repository: Arc::new(repository), _keep: Box::new(()) })
    }

    mod suite {
        every_test!(postgres);
    }
}
