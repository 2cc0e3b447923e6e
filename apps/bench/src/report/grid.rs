//! Rows under a headline: for a terminal, or in Markdown.

/// A table of texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grid {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// Starts with the names of the columns.
    pub fn new<T: Into<String>>(head: impl IntoIterator<Item = T>) -> Self {
        Self { head: head.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row with a value for each column.
    pub fn row<T: Into<String>>(&mut self, values: impl IntoIterator<Item = T>) {
        self.rows.push(values.into_iter().map(Into::into).collect());
    }

    /// The names of the columns.
    pub fn head(&self) -> &[String] {
        &self.head
    }

    /// What is below them.
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The same without columns in which all rows are empty.
    #[must_use]
    pub fn compact(&self) -> Self {
        let is_used =
            |at: &usize| self.rows.iter().any(|row| row.get(*at).is_some_and(|cell| !cell.is_empty()));
        let kept: Vec<usize> = (0..self.head.len()).filter(is_used).collect();
        let only = |row: &Vec<String>| kept.iter().filter_map(|at| row.get(*at).cloned()).collect();
        Self { head: only(&self.head), rows: self.rows.iter().map(only).collect() }
    }

    /// With columns under each other: texts to the left, what begins with a digit to the right.
    pub fn text(&self) -> String {
        let widths: Vec<usize> = (0..self.head.len()).map(|at| self.width(at)).collect();
        let mut lines = Vec::new();
        for row in std::iter::once(&self.head).chain(&self.rows) {
            let cells = row.iter().zip(&widths).enumerate().map(|(at, (cell, width))| {
                if self.is_number(at) { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
            });
            lines.push(cells.collect::<Vec<_>>().join("  ").trim_end().to_owned());
        }
        lines.join("\n") + "\n"
    }

    /// As Markdown has it.
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| in_markdown(cell)).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let rule: Vec<String> = (0..self.head.len())
            .map(|at| if self.is_number(at) { "--:" } else { "---" }.to_owned())
            .collect();
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        format!("{}{}{rows}", line(&self.head), line(&rule).replace(' ', ""))
    }

    fn width(&self, at: usize) -> usize {
        let cells = std::iter::once(&self.head).chain(&self.rows).filter_map(|row| row.get(at));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    }

    /// Whether all that a column has begins with a digit.
    pub fn is_number(&self, at: usize) -> bool {
        let mut cells = self.rows.iter().filter_map(|row| row.get(at)).filter(|cell| !cell.is_empty());
        let is = |cell: &String| cell.starts_with(|first: char| first.is_ascii_digit());
        self.rows.iter().any(|row| row.get(at).is_some_and(|cell| !cell.is_empty())) && cells.all(is)
    }
}

/// A cell that ends where it should: values of a workload may have bars and lines of their own.
fn in_markdown(cell: &str) -> String {
    let escaped = cell.replace('\\', "\\\\").replace('|', "\\|");
    escaped.split(['\r', '\n']).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_to_the_right() {
        let mut grid = Grid::new(["system", "rate", "nothing", "p50"]);
        grid.row(["vltava", "1 000", "", "5 µs"]);
        grid.row(["kafka", "50", "", "12 µs"]);
        let grid = grid.compact();
        assert_eq!(grid.text(), "system   rate    p50\nvltava  1 000   5 µs\nkafka      50  12 µs\n");
        let markdown =
            "| system | rate | p50 |\n|---|--:|--:|\n| vltava | 1 000 | 5 µs |\n| kafka | 50 | 12 µs |\n";
        assert_eq!(grid.markdown(), markdown);
    }

    #[test]
    fn a_cell_is_one_cell_whatever_is_in_it() {
        let mut grid = Grid::new(["payload", "rate"]);
        grid.row(["template:a|b\\|c\r\nd", "1"]);
        let expected = "| payload | rate |\n|---|--:|\n| template:a\\|b\\\\\\|c d | 1 |\n";
        assert_eq!(grid.markdown(), expected);
    }
}
