//! The store's files and rows together: what survives, what is swept, what is rejected.

use crate::support;

use std::time::Duration;

use guarantor::store::{
    Damage, JobFilter, JobId, Owner, PageRequest, PolicyId, Role, Store, StoreError, Workspace,
};
use sqlx::{Connection, SqliteConnection};
use support::{dataset, job, policy_params, store, workspace};

/// A separate connection to the store's database.
async fn database(directory: &std::path::Path) -> SqliteConnection {
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(directory.join("guarantor.sqlite"));
    SqliteConnection::connect_with(&options).await.unwrap()
}

#[tokio::test]
async fn keys_open_their_workspace_until_revoked() {
    let (_directory, store) = store().await;
    let (key, secret) = store.create_key(workspace("team-a"), "ci", Role::Read).await.unwrap();
    let found = store.authenticate(&secret).await.unwrap().unwrap();
    assert_eq!((found.id, found.workspace.as_str(), found.role), (key.id, "team-a", Role::Read));
    for wrong in ["", "gk_", "gk_0000", &secret[..secret.len() - 1], &secret.to_uppercase()] {
        assert!(store.authenticate(wrong).await.unwrap().is_none(), "{wrong}");
    }
    store.repository().revoke_key(key.id).await.unwrap();
    assert!(store.authenticate(&secret).await.unwrap().is_none());
}

#[tokio::test]
async fn a_changed_file_is_noticed() {
    let (directory, store) = store().await;
    let policy = store.create_policy(&Workspace::default(), PolicyId::new(), &policy_params()).await.unwrap();
    assert_eq!(store.policy_params(&policy).await.unwrap(), policy_params());
    let file = directory.path().join("blobs").join(&policy.params.key);
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("-0.25", "-0.75")).unwrap();
    let owner = Some(Owner::Policy(policy.id));
    let changed = store.policy_params(&policy).await;
    assert!(matches!(&changed, Err(StoreError::Damaged(damage)) if damage.owner == owner), "{changed:?}");
    std::fs::remove_file(&file).unwrap();
    let missing = store.policy_params(&policy).await;
    assert!(matches!(&missing, Err(StoreError::Damaged(damage)) if damage.owner == owner), "{missing:?}");
}

#[tokio::test]
async fn a_key_of_a_blob_is_used_once() {
    let (_directory, store) = store().await;
    let blob = store.blobs().put("policies/x.json".into(), "first").await.unwrap();
    let again = store.blobs().put("policies/x.json".into(), "other").await;
    assert!(matches!(again, Err(StoreError::Exists(..))), "{again:?}");
    assert_eq!(store.blobs().get(&blob).await.unwrap(), "first");
}

#[tokio::test]
async fn a_policy_is_created_once_and_deleted_with_its_file() {
    let (_directory, store) = store().await;
    let (ws, id) = (Workspace::default(), PolicyId::new());
    store.create_policy(&ws, id, &policy_params()).await.unwrap();
    let again = store.create_policy(&ws, id, &policy_params()).await;
    assert!(matches!(again, Err(StoreError::Exists(..))), "{again:?}");
    store.delete_policy(&ws, id).await.unwrap();
    assert!(store.blobs().keys().await.unwrap().is_empty());
}

#[tokio::test]
async fn the_sweep_removes_what_no_row_names() {
    let (_directory, store) = store().await;
    let policy = store.create_policy(&Workspace::default(), PolicyId::new(), &policy_params()).await.unwrap();
    store.blobs().put("jobs/dead/certificate.json".into(), "{}").await.unwrap();
    store.sweep(None, Duration::from_secs(3600)).await.unwrap();
    assert_eq!(store.blobs().keys().await.unwrap().len(), 2);
    store.sweep(None, Duration::ZERO).await.unwrap();
    assert_eq!(store.blobs().keys().await.unwrap(), [policy.params.key]);
}

#[tokio::test]
async fn one_server_owns_a_directory() {
    let (directory, store) = store().await;
    std::fs::create_dir_all(directory.path().join("blobs/datasets")).unwrap();
    let staged = directory.path().join("blobs/datasets/half.parquet#1");
    std::fs::write(&staged, "half").unwrap();
    let lock = store.take_over(directory.path()).await.unwrap();
    assert!(!staged.exists());
    let second = Store::open(directory.path()).await.unwrap();
    let refused = second.take_over(directory.path()).await.map(drop);
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    // The command line works while the server runs.
    second.create_key(workspace("a"), "beside", Role::Admin).await.unwrap();
    drop(lock);
    second.take_over(directory.path()).await.unwrap();
}

#[tokio::test]
async fn everything_is_there_after_a_restart() {
    let (directory, store) = store().await;
    let before = dataset(store.repository(), "a").await;
    drop(store);
    let store = Store::open(directory.path()).await.unwrap();
    assert_eq!(store.repository().dataset(&before.workspace, before.id).await.unwrap(), before);
}

#[tokio::test]
async fn a_newer_database_is_rejected() {
    let (directory, store) = store().await;
    drop(store);
    let mut connection = database(directory.path()).await;
    sqlx::query("INSERT INTO schema_version (version) VALUES (99)").execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    let refused = Store::open(directory.path()).await.map(drop);
    let Err(StoreError::Refused(sentence)) = refused else { panic!("{refused:?}") };
    assert!(sentence.contains("schema version 99") && sentence.contains("newer release"), "{sentence}");
}

/// The ids of all pages of the list of jobs.
async fn listed(store: &Store, limit: u32) -> Vec<JobId> {
    let (mut ids, mut page) = (Vec::new(), PageRequest::first(limit));
    loop {
        let found = store.repository().jobs(&workspace("a"), &JobFilter::default(), &page).await.unwrap();
        ids.extend(found.data.iter().map(|job| job.id));
        match found.next {
            Some(next) => page.after = Some(next),
            None => return ids,
        }
    }
}

#[tokio::test]
async fn a_damaged_job_does_not_hide_the_others_in_a_list() {
    let (directory, store) = store().await;
    let dataset = dataset(store.repository(), "a").await;
    let mut ids = Vec::new();
    for _ in 0..7 {
        ids.push(job(store.repository(), &dataset).await.id);
    }
    ids.reverse();
    let mut connection = database(directory.path()).await;
    let damages = [(1, "spec = '{'"), (2, "metadata = 'x'"), (3, "attempt = -1"), (6, "status = 'lost'")];
    for (number, change) in damages {
        let statement = sqlx::AssertSqlSafe(format!("UPDATE jobs SET {change} WHERE id = $1"));
        sqlx::query(statement).bind(ids[number].to_string()).execute(&mut connection).await.unwrap();
    }
    connection.close().await.unwrap();
    tokio::time::sleep(Duration::from_millis(150)).await;
    for limit in [1, 2, 3, 10] {
        assert_eq!(listed(&store, limit).await, [ids[0], ids[4], ids[5]], "pages of {limit}");
    }
    let read = store.repository().job(&workspace("a"), ids[1]).await;
    let Err(StoreError::Damaged(Damage { owner, .. })) = read else { panic!("{read:?}") };
    assert_eq!(owner, Some(Owner::Job(ids[1])));
}

#[tokio::test]
async fn a_removed_blob_takes_its_own_folder_with_it_and_no_other() {
    let (directory, store) = store().await;
    let folder = |name: &str| directory.path().join("blobs").join(name);
    let mut writer = store.blobs().writer("datasets/a/1.parquet".into()).await.unwrap();
    writer.write(vec![1]).await.unwrap();
    assert!(folder("datasets/a").exists());
    writer.abandon().await;
    // Another upload may be about to create its folder in this one.
    assert!(folder("datasets").exists() && !folder("datasets/a").exists());
    let first = store.blobs().put("jobs/a/b/certificate.json".into(), "{}").await.unwrap();
    let second = store.blobs().put("jobs/a/c/certificate.json".into(), "{}").await.unwrap();
    store.blobs().delete(&[first.key]).await;
    assert!(folder("jobs/a/c").exists() && !folder("jobs/a/b").exists());
    store.blobs().delete(&[second.key]).await;
    assert!(folder("jobs").exists() && !folder("jobs/a").exists());
}
