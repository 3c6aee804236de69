//! Logs of simulated worlds with known truth.

use std::io::{self, Cursor, Write};
use std::path::PathBuf;
use std::str::FromStr;

use arrow_ipc::reader::StreamReader;
use guarantor_ingest::simulate::{
    NewsFound, ROWS, ShopFound, ToyPlan, news_layout, shop_layout, toy_layout, write_news, write_shop,
    write_toy,
};
use guarantor_ingest::write::file::{OutputFile, contexts};
use guarantor_ingest::write::{LogWriter, WriteLayout};
use guarantor_ingest::{FileFormat, Format, news, shop, toy};
use pyo3::prelude::*;
use serde::Deserialize;

use crate::attend::{Wishes, attend};
use crate::errors::{Failure, Outcome, from_json};
use crate::policy::params_of;
use crate::table::Table;

/// The keywords of `guarantor.simulate`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keywords {
    dataset: Dataset,
    rows: Option<usize>,
    seed: u64,
    world: u64,
    alpha: f64,
    interactions: usize,
    retrain: usize,
    features: bool,
    format: Option<String>,
}

#[derive(Deserialize, Clone, Copy, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Dataset {
    Toy,
    News,
    Shop,
}

/// Simulates a log: as a table, or as a file.
#[pyfunction]
#[pyo3(signature = (keywords, policy = None, out = None))]
pub fn simulate(
    py: Python<'_>,
    keywords: String,
    policy: Option<String>,
    out: Option<PathBuf>,
) -> PyResult<Option<Table>> {
    attend(py, Wishes::default(), move |_| {
        let keywords: Keywords = from_json("simulate", &keywords)?;
        let world = World::new(&keywords, policy.as_deref())?;
        match out {
            Some(path) => {
                write_file(world, &keywords, &path)?;
                Ok(None)
            }
            None => as_table(world, &keywords).map(Some),
        }
    })
}

/// A world, and the columns of its log.
struct World {
    state: State,
    layout: WriteLayout,
    rows: usize,
}

enum State {
    Toy(toy::Toy, ToyPlan),
    News(news::News, usize),
    Shop(shop::Shop),
}

impl World {
    fn new(keywords: &Keywords, policy: Option<&str>) -> Outcome<Self> {
        let &Keywords { seed, world, alpha, interactions, retrain, features, .. } = keywords;
        if !(alpha.is_finite() && alpha >= 0.0) {
            return Err(Failure::argument("alpha", "must be a number of at least 0"));
        }
        if interactions == 0 {
            return Err(Failure::argument("interactions", "must be at least 1"));
        }
        let rows = keywords.rows.unwrap_or(ROWS - ROWS % interactions);
        let policy = policy.map(params_of).transpose()?;
        let wrong = |why: String| Failure::argument("policy", why);
        let toy_only = [("interactions", interactions > 1), ("retrain", retrain > 0)];
        let (state, layout) = match keywords.dataset {
            Dataset::Toy => {
                let contexts = contexts(rows, interactions, usize::MAX)
                    .map_err(|_| Failure::argument("rows", "must be a positive multiple of interactions"))?;
                let layout = toy_layout(interactions, !features, retrain > 0);
                let plan = ToyPlan { contexts, interactions, dim: layout.dim, retrain };
                let toy = toy::Toy::new(alpha, seed);
                let toy =
                    policy.map_or(Ok(None), |policy| Ok(Some(policy))).and_then(|policy| match policy {
                        Some(policy) => toy.with_policy(policy).map_err(wrong),
                        None => Ok(toy),
                    })?;
                (State::Toy(toy, plan), layout)
            }
            Dataset::News => {
                if interactions > 1 {
                    return Err(Failure::argument("interactions", "the news world does not have it"));
                }
                let news = news::News::new(world, seed);
                let news = match policy {
                    Some(policy) => news.with_policy(policy).map_err(wrong)?,
                    None => news,
                };
                (State::News(news, retrain), news_layout(retrain > 0))
            }
            Dataset::Shop => {
                if let Some((field, _)) = toy_only.iter().find(|(_, used)| *used) {
                    return Err(Failure::argument(field, "the shop does not have it"));
                }
                let shop = shop::Shop::new(world, seed, alpha);
                let shop = match policy {
                    Some(policy) => shop.with_policy(policy).map_err(wrong)?,
                    None => shop,
                };
                (State::Shop(shop), shop_layout(!features))
            }
        };
        if rows == 0 || retrain >= rows / interactions {
            return Err(Failure::argument("rows", "must be positive, and more than retrain"));
        }
        Ok(World { state, layout, rows })
    }

    fn write<W: Write>(&mut self, writer: &mut LogWriter<W>) -> io::Result<()> {
        let nowhere = &mut None::<io::Sink>;
        match &mut self.state {
            State::Toy(toy, plan) => write_toy(toy, plan, writer),
            State::News(news, retrain) => {
                write_news(news, self.rows, *retrain, writer, nowhere, &mut NewsFound::default())
            }
            State::Shop(shop) => {
                write_shop(shop, self.rows, self.layout.dim, writer, nowhere, &mut ShopFound::default())
            }
        }
    }
}

fn write_file(mut world: World, keywords: &Keywords, path: &std::path::Path) -> Outcome<()> {
    let wrong = |why: String| Failure::argument("out", why);
    let named = keywords.format.as_deref().map(Format::from_str).transpose();
    let named = named.map_err(|why| Failure::argument("format", why))?;
    let format =
        FileFormat::of_file(path, named).map_err(|why| wrong(why.replace("add --format", "set format")))?;
    // DSJSON has no policy versions.
    world.layout.versions &= format.format != Format::Dsjson;
    format.format.can_write(&world.layout).map_err(wrong)?;
    let layout = world.layout.clone();
    OutputFile { path, format, layout: &layout }.write(|writer| world.write(writer)).map_err(wrong)
}

fn as_table(mut world: World, _: &Keywords) -> Outcome<Table> {
    let failed = |error: String| Failure::Panic(error);
    let write = |world: &mut World| {
        let mut writer = LogWriter::new(Format::ArrowStream, &world.layout.clone(), Vec::new())?;
        world.write(&mut writer)?;
        writer.finish()
    };
    let bytes = write(&mut world).map_err(|error| failed(error.to_string()))?;
    let reader =
        StreamReader::try_new(Cursor::new(bytes), None).map_err(|error| failed(error.to_string()))?;
    let schema = reader.schema();
    let batches = reader.collect::<Result<Vec<_>, _>>().map_err(|error| failed(error.to_string()))?;
    Ok(Table { schema, batches })
}
