//! All figures that can be reproduced, by paper.
//!
//! A figure is a line of [`FIGURES`]. `command/reproduce` runs it.

use clap::builder::PossibleValue;
use nearfar_index_bench::reproduce::zhao;
use nearfar_measure::operators::GeyerFigure;
use nearfar_measure::reproduce::{
    Causes, CurvesFigure, Figure, InterplayTable, Paper, RegulatorFigure,
};

/// How a figure is run.
#[derive(Debug, Clone, Copy)]
pub enum Runner {
    /// Point by point, on the machine of a profile.
    Points(Figure),
    /// On the machines of mao-2025.
    Interplay(InterplayFigure),
    /// On the machines of geyer-2023, all figures that are asked for together.
    Geyer(GeyerFigure),
    /// Numbers of ahn-2024.
    Ahn(AhnFigure),
    /// Placement of trees on the machine of zhao-2026.
    Zhao(zhao::Figure),
}

/// A table or figure of mao-2025.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterplayFigure {
    /// What tiers and storage take from each other.
    Table3,
    /// Counters that say why.
    Table4,
    /// Curves over threads.
    Curves(CurvesFigure),
    /// What regulators give back.
    Regulators(RegulatorFigure),
}

impl InterplayFigure {
    const fn name(self) -> &'static str {
        match self {
            Self::Table3 => InterplayTable::name(),
            Self::Table4 => Causes::name(),
            Self::Curves(figure) => figure.name(),
            Self::Regulators(figure) => figure.name(),
        }
    }
}

/// Numbers of ahn-2024.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AhnFigure {
    /// Throughput relative to everything near.
    Losses,
    /// What nothing here stands for.
    Rest,
}

impl AhnFigure {
    /// Its word in commands and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Losses => "ahn-losses",
            Self::Rest => "ahn-rest",
        }
    }
}

/// A figure.
#[derive(Debug)]
pub struct Entry {
    /// Its word in commands.
    pub name: &'static str,
    /// Further words for it.
    pub aliases: &'static [&'static str],
    /// The paper.
    pub paper: Paper,
    /// What it shows, in few words.
    pub about: &'static str,
    /// How it is run.
    pub runner: Runner,
}

const fn weisgut(aliases: &'static [&'static str], figure: Figure, about: &'static str) -> Entry {
    Entry {
        name: figure.name(),
        aliases,
        paper: Paper::Weisgut,
        about,
        runner: Runner::Points(figure),
    }
}

const fn mao(figure: InterplayFigure, about: &'static str) -> Entry {
    Entry {
        name: figure.name(),
        aliases: &[],
        paper: Paper::Mao,
        about,
        runner: Runner::Interplay(figure),
    }
}

const fn geyer(figure: GeyerFigure, about: &'static str) -> Entry {
    Entry {
        name: figure.name(),
        aliases: &[],
        paper: Paper::Geyer,
        about,
        runner: Runner::Geyer(figure),
    }
}

const fn zhao(figure: zhao::Figure) -> Entry {
    Entry {
        name: figure.name(),
        aliases: &[],
        paper: Paper::Zhao,
        about: figure.title(),
        runner: Runner::Zhao(figure),
    }
}

/// All figures, in the order of reports.
pub const FIGURES: &[Entry] = &[
    weisgut(
        &["weisgut-fig4"],
        Figure::Fig4,
        "Throughput over one to four CXL devices",
    ),
    weisgut(&["weisgut-fig5"], Figure::Fig5, "Latency percentiles"),
    weisgut(
        &["weisgut-fig6"],
        Figure::Fig6,
        "A region split between CPU and CXL memory",
    ),
    weisgut(&["weisgut-fig7"], Figure::Fig7, "Filtering scans"),
    weisgut(
        &["weisgut-fig8"],
        Figure::Fig8,
        "Scans with a share of the columns in CXL memory",
    ),
    weisgut(&["weisgut-fig9"], Figure::Fig9, "Bound shares"),
    weisgut(&["weisgut-fig10"], Figure::Fig10, "B+trees by threads"),
    weisgut(&["weisgut-fig11"], Figure::Fig11, "B+tree node sizes"),
    weisgut(&["fig14"], Figure::Fig14, "Prices of the cheapest machines"),
    mao(
        InterplayFigure::Table3,
        "What memory tiers and storage take from each other",
    ),
    mao(
        InterplayFigure::Table4,
        "Counters that say why writes to storage lose, from simulated queues",
    ),
    mao(
        InterplayFigure::Curves(CurvesFigure::Fig3a),
        "Writes to an NVMe drive beside non-temporal stores to CXL memory",
    ),
    mao(
        InterplayFigure::Curves(CurvesFigure::Fig3b),
        "Random writes to it beside copies by MOVDIR64B",
    ),
    mao(
        InterplayFigure::Curves(CurvesFigure::Fig4),
        "The largest decline of applications of all four types, on system B",
    ),
    mao(
        InterplayFigure::Curves(CurvesFigure::Fig4SystemA),
        "The same on system A",
    ),
    mao(
        InterplayFigure::Curves(CurvesFigure::Fig5),
        "A database beside loads of CXL memory, whose gain the model does not have",
    ),
    mao(
        InterplayFigure::Curves(CurvesFigure::Fig6),
        "PageRank beside non-temporal stores to CXL memory",
    ),
    mao(
        InterplayFigure::Regulators(RegulatorFigure::Fig7),
        "CPU quotas that give a victim its bandwidth back",
    ),
    mao(
        InterplayFigure::Regulators(RegulatorFigure::Fig8),
        "Quotas, frequency and bandwidth allocation",
    ),
    geyer(GeyerFigure::Fig2, "Sums with further remote buffers"),
    geyer(GeyerFigure::Fig3, "Sums over local and remote threads"),
    geyer(GeyerFigure::Fig4, "Joins one after the other"),
    geyer(GeyerFigure::Fig5, "Grouped joins"),
    Entry {
        name: AhnFigure::Losses.name(),
        aliases: &["ahn-fig4", "ahn-fig8", "ahn-fig9"],
        paper: Paper::Ahn,
        about: "Throughput with main storage, heap or temporary tables far, by `nearfar bench heap`",
        runner: Runner::Ahn(AhnFigure::Losses),
    },
    Entry {
        name: AhnFigure::Rest.name(),
        aliases: &["ahn-table1", "ahn-table2", "ahn-fig11"],
        paper: Paper::Ahn,
        about: "Other numbers of its text, which nothing here stands for",
        runner: Runner::Ahn(AhnFigure::Rest),
    },
    zhao(zhao::Figure::Fig14a),
    zhao(zhao::Figure::Fig15),
    zhao(zhao::Figure::Fig16b),
    zhao(zhao::Figure::Fig16c),
    zhao(zhao::Figure::Fig17a),
    zhao(zhao::Figure::Fig17b),
    zhao(zhao::Figure::Fig19),
    zhao(zhao::Figure::Fig21),
    zhao(zhao::Figure::Table3),
];

/// Every figure of these papers.
const ALL: &str = "all";

/// What the command is asked for: figures, and the word that named them.
#[derive(Debug, Clone)]
pub struct Selection {
    /// The word.
    pub word: String,
    /// The figures; at least one.
    pub figures: Vec<&'static Entry>,
}

impl Selection {
    /// The figure, or the figures of the paper, of that word; none for another word.
    pub fn named(word: &str) -> Self {
        let is_meant = |entry: &&Entry| {
            word == ALL
                || entry.name == word
                || entry.aliases.contains(&word)
                || entry.paper.word() == word
        };
        Self {
            word: word.to_owned(),
            figures: FIGURES.iter().filter(is_meant).collect(),
        }
    }

    /// All words, for the help.
    pub fn words() -> Vec<PossibleValue> {
        let figures = FIGURES.iter().map(|entry| {
            let value = PossibleValue::new(entry.name).help(entry.about);
            value.aliases(entry.aliases.iter().copied())
        });
        let has_figures = |paper: &Paper| FIGURES.iter().any(|entry| entry.paper == *paper);
        let papers = Paper::ALL.into_iter().filter(has_figures);
        let papers = papers.map(|paper| {
            PossibleValue::new(paper.word()).help(format!("All figures of {}", paper.title()))
        });
        let all = PossibleValue::new(ALL).help("Every figure of these papers");
        papers.chain([all]).chain(figures).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_of_the_product_is_named_once() {
        let mut words: Vec<&str> = FIGURES.iter().map(|entry| entry.name).collect();
        words.extend(FIGURES.iter().flat_map(|entry| entry.aliases));
        words.extend(Paper::ALL.map(Paper::word));
        words.push(ALL);
        let all = words.len();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), all, "a word has one meaning");
        for figure in Figure::ALL {
            let selection = Selection::named(figure.name());
            let runner = selection.figures.first().map(|entry| entry.runner);
            assert!(
                matches!(runner, Some(Runner::Points(found)) if found == figure),
                "{figure:?}"
            );
        }
        for figure in GeyerFigure::ALL {
            assert_eq!(Selection::named(figure.name()).figures.len(), 1);
        }
        for figure in zhao::Figure::ALL {
            assert_eq!(Selection::named(figure.name()).figures.len(), 1);
        }
    }

    #[test]
    fn papers_and_all_are_lists_of_figures() {
        assert_eq!(Selection::named("weisgut").figures.len(), Figure::ALL.len());
        assert_eq!(Selection::named("geyer").figures.len(), 4);
        assert_eq!(Selection::named("mao").figures.len(), 10);
        let placement = Selection::named("zhao").figures.len();
        assert_eq!(placement, zhao::Figure::ALL.len());
        assert_eq!(Selection::named("all").figures.len(), FIGURES.len());
        assert_eq!(Selection::named("fig14").figures[0].name, "weisgut-fig14");
        assert!(Selection::named("moon").figures.is_empty());
    }
}
