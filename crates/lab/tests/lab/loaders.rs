//! The loaders on small files in the published formats and on malformed files.

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use guarantor_lab::{LoadError, PaperDataset, Supervised, load};
use tempfile::TempDir;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn idx(dimensions: &[u32], bytes: &[u8]) -> Vec<u8> {
    let mut file = vec![0, 0, 8, dimensions.len() as u8];
    dimensions.iter().for_each(|d| file.extend(d.to_be_bytes()));
    file.extend(bytes);
    file
}

/// Images whose pixels all have one shade, except the first pixel, which is 0.
fn images(shades: &[u8]) -> Vec<u8> {
    let pixels: Vec<u8> =
        shades.iter().flat_map(|&shade| std::iter::once(0).chain(std::iter::repeat_n(shade, 783))).collect();
    idx(&[shades.len() as u32, 28, 28], &pixels)
}

fn put(directory: &Path, name: &str, bytes: &[u8]) {
    let bytes = if name.ends_with(".gz") { gzip(bytes) } else { bytes.to_vec() };
    std::fs::write(directory.join(name), bytes).unwrap();
}

/// Files of FashionMNIST, some of them compressed.
fn fashion() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    put(directory.path(), "train-images-idx3-ubyte.gz", &images(&[1, 100, 255]));
    put(directory.path(), "train-labels-idx1-ubyte.gz", &idx(&[3], &[0, 9, 4]));
    put(directory.path(), "t10k-images-idx3-ubyte", &images(&[7, 8]));
    put(directory.path(), "t10k-labels-idx1-ubyte", &idx(&[2], &[1, 2]));
    directory
}

fn read(dataset: PaperDataset, directory: &TempDir) -> Result<Supervised, LoadError> {
    load(dataset, Some(directory.path()))
}

#[test]
fn idx_files_contain_images_and_labels() {
    let data = read(PaperDataset::FashionMnist, &fashion()).unwrap();
    assert_eq!((data.name.as_str(), data.n_actions), ("FashionMNIST", 10));
    assert_eq!((data.train.x.dim(), data.test.x.dim()), ((3, 784), (2, 784)));
    let labels: Vec<&[u32]> = (0..3).map(|i| data.train.labels.of(i)).collect();
    assert_eq!(labels, [[0], [9], [4]]);
    // Whatever the shade, a plain image has 783 equal features after normalization.
    for row in data.train.x.rows().into_iter().chain(data.test.x.rows()) {
        assert_eq!(row[0], 0.0);
        assert!(row.iter().skip(1).all(|v| (v - 1.0 / 783.0f32.sqrt()).abs() < 1e-7));
    }
    assert!(data.test.labels.contains(1, 2) && !data.test.labels.contains(1, 1));
}

#[test]
fn emnist_has_other_names_and_more_labels() {
    let directory = tempfile::tempdir().unwrap();
    for (part, labels) in [("train", [46, 0]), ("test", [45, 10])] {
        put(directory.path(), &format!("emnist-balanced-{part}-images-idx3-ubyte.gz"), &images(&[9, 8]));
        put(directory.path(), &format!("emnist-balanced-{part}-labels-idx1-ubyte.gz"), &idx(&[2], &labels));
    }
    let data = read(PaperDataset::EmnistB, &directory).unwrap();
    assert_eq!((data.n_actions, data.train.labels.of(0), data.test.labels.of(1)), (47, &[46][..], &[10][..]));
}

#[test]
fn malformed_idx_files_are_rejected() {
    let (labels, pictures) = ("train-labels-idx1-ubyte.gz", "train-images-idx3-ubyte.gz");
    let short = images(&[1, 2, 3])[..2000].to_vec();
    let cases: [(&str, Vec<u8>, &str); 9] = [
        (pictures, b"\0\0\x08\x01\0\0\0\x02ab".to_vec(), "not an IDX file with 3 dimensions"),
        (pictures, b"\x89PNG and so on and so on".to_vec(), "not an IDX file"),
        (pictures, Vec::new(), "not an IDX file"),
        (pictures, short, "the file is damaged"),
        (pictures, [images(&[1, 2, 3]), vec![0]].concat(), "the file is damaged"),
        (pictures, idx(&[3, 28, 27], &[1; 3 * 28 * 27]), "28 × 27 pixels"),
        (labels, idx(&[2], &[1, 2]), "2 labels for the 3 images"),
        (labels, idx(&[3], &[1, 10, 2]), "label 2 is 10; labels must be below 10"),
        (pictures, idx(&[u32::MAX, u32::MAX, u32::MAX], &[1]), "the file is damaged"),
    ];
    for (name, bytes, wanted) in cases {
        let directory = fashion();
        put(directory.path(), name, &bytes);
        let error = read(PaperDataset::FashionMnist, &directory).unwrap_err().to_string();
        assert!(error.contains(wanted) && error.contains(name), "{wanted}: {error}");
    }
    let directory = fashion();
    std::fs::write(directory.path().join(pictures), &gzip(&images(&[1, 2, 3]))[..40]).unwrap();
    let error = read(PaperDataset::FashionMnist, &directory).unwrap_err().to_string();
    assert!(error.contains("damaged gzip") && error.contains(pictures), "{error}");
    std::fs::write(directory.path().join(pictures), images(&[1, 2, 3])).unwrap();
    let error = read(PaperDataset::FashionMnist, &directory).unwrap_err().to_string();
    assert!(error.contains("damaged gzip"), "named .gz but not compressed: {error}");
}

#[test]
fn a_missing_file_is_named_with_its_owner() {
    for (dataset, file, owner) in [
        (PaperDataset::FashionMnist, "train-images-idx3-ubyte", "dataset-fashion-mnist"),
        (PaperDataset::EmnistB, "emnist-balanced-train-images-idx3-ubyte", "NIST"),
        (PaperDataset::Mediamill, "Mediamill_data.txt", "Extreme Classification Repository"),
        (PaperDataset::NusWide, "nus-wide-full-cVLADplus-train.arff", "nuswide-cVLADplus.rar"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let error = read(dataset, &directory).unwrap_err();
        assert!(matches!(error, LoadError::Missing { .. }));
        let text = error.to_string();
        for wanted in [dataset.name(), file, owner, directory.path().to_str().unwrap()] {
            assert!(text.contains(wanted), "{wanted} in {text}");
        }
    }
    let directory = fashion();
    std::fs::remove_file(directory.path().join("t10k-labels-idx1-ubyte")).unwrap();
    let error = read(PaperDataset::FashionMnist, &directory).unwrap_err().to_string();
    assert!(error.contains("t10k-labels-idx1-ubyte"), "{error}");
}

/// Mediamill in one file per part, with the given training part.
fn mediamill(train: &str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    put(directory.path(), "mediamill_train.txt.gz", train.as_bytes());
    put(directory.path(), "mediamill_test.txt", b"1,100 1:1 120:1\n");
    directory
}

#[test]
fn multi_label_text_counts_from_1_without_a_header_and_from_0_with_one() {
    let svmlight = "3,0,100 1:3 2:4\n 120:2\r\n5 7:-0.5\n\n";
    let data = read(PaperDataset::Mediamill, &mediamill(svmlight)).unwrap();
    assert_eq!((data.train.x.dim(), data.test.x.dim()), ((3, 120), (1, 120)));
    let labels: Vec<&[u32]> = (0..3).map(|i| data.train.labels.of(i)).collect();
    assert_eq!(labels, [&[0, 3, 100][..], &[], &[5]], "ascending, or empty");
    assert_eq!((data.train.x[(0, 0)], data.train.x[(0, 1)]), (0.6, 0.8), "a row has the length 1");
    assert_eq!((data.train.x[(1, 119)], data.train.x[(2, 6)]), (1.0, -1.0));
    assert_eq!(data.train.x.iter().filter(|v| **v != 0.0).count(), 4);

    let repository = "3 120 101\n3,0,100 0:3 1:4\n 119:2\n5 6:-0.5\n";
    let again = read(PaperDataset::Mediamill, &mediamill(repository)).unwrap();
    assert_eq!(again, data);
}

#[test]
fn malformed_multi_label_text_is_rejected_with_its_line() {
    for (train, line, wanted) in [
        ("1 0:1\n", Some(1), "feature 0 is not in [1, 120]"),
        ("1 1:1\n2 121:1\n", Some(2), "feature 121 is not in [1, 120]"),
        ("2 120 101\n1 1:1\n2 120:1\n", Some(3), "feature 120 is not in [0, 119]"),
        ("1 5:1 5:2\n", Some(1), "feature 5 follows 5"),
        ("1 1:1\n\n1 7:1 6:2\n", Some(3), "feature 6 follows 7"),
        ("101 1:1\n", Some(1), "label 101 is not below 101"),
        ("1,1 1:1\n", Some(1), "duplicate label 1"),
        ("1,x 1:1\n", Some(1), "\"x\" is not a label"),
        ("1, 1:1\n", Some(1), "\"\" is not a label"),
        ("-1 1:1\n", Some(1), "\"-1\" is not a label"),
        ("1 1:1 two:2\n", Some(1), "\"two\" is not a feature index"),
        ("1 1:one\n", Some(1), "\"one\" is not a number"),
        ("1 1:nan\n", Some(1), "not finite"),
        ("1 1:1e99\n", Some(1), "not finite"),
        ("1 1:1 7\n", Some(1), "\"7\" is not index:value"),
        (" 7 1:1\n", Some(1), "begins with a space"),
        ("3 120 101\n1 1:1\n", None, "has 1 examples, but its first line says 3"),
        ("1 120 101\n1 1:1\n1 1:1\n", None, "has 2 examples, but its first line says 1"),
        ("1 119 101\n1 1:1\n", Some(1), "has 119 features and 101 labels; expected 120 and 101"),
        ("", None, "has no examples"),
        ("\u{0}\u{1}", Some(1), "is not a label"),
    ] {
        let error = read(PaperDataset::Mediamill, &mediamill(train)).unwrap_err();
        let LoadError::Malformed { path, line: at, message } = &error else { panic!("{error}") };
        assert!(message.contains(wanted), "{train:?}: {message}");
        assert_eq!(*at, line, "{train:?}: {message}");
        assert!(path.ends_with("mediamill_train.txt.gz"));
    }
    let error = read(PaperDataset::Mediamill, &mediamill("1 1:1\n2 121:1\n")).unwrap_err().to_string();
    assert!(error.contains("mediamill_train.txt.gz, line 2: feature 121"), "{error}");
}

/// The format of the Extreme Classification Repository: one data file with two split files.
#[test]
fn split_files_select_the_examples() {
    let files = |train: &str, test: &str| {
        let directory = tempfile::tempdir().unwrap();
        put(directory.path(), "Mediamill_data.txt", b"4 120 101\n0 0:1\n1 1:1\n2 2:1\n3 3:1\n");
        put(directory.path(), "mediamill_trSplit.txt", train.as_bytes());
        put(directory.path(), "mediamill_tstSplit.txt", test.as_bytes());
        directory
    };
    // If there are several columns, one per split, the first is used.
    let data = read(PaperDataset::Mediamill, &files("4 1\n1 2\n3 4\n", "2 3\n")).unwrap();
    let labels: Vec<&[u32]> = (0..3).map(|i| data.train.labels.of(i)).collect();
    assert_eq!((labels, data.test.labels.of(0)), (vec![&[3][..], &[0], &[2]], &[1][..]));
    assert_eq!((data.train.x[(0, 3)], data.test.x[(0, 1)]), (1.0, 1.0));
    for (train, test, wanted) in [
        ("4\n4\n", "2\n", "line 2: example 4 is already in the split"),
        ("4\n1\n", "3\n1\n", "line 2: example 1 is already in the split"),
        ("5\n", "1\n", "\"5\" is not an example number from 1 to 4"),
        ("0\n", "1\n", "\"0\" is not an example number"),
        ("1\n", "", "has no examples"),
    ] {
        let error = read(PaperDataset::Mediamill, &files(train, test)).unwrap_err().to_string();
        assert!(error.contains(wanted), "{wanted}: {error}");
    }
    let directory = files("1\n", "2\n");
    std::fs::remove_file(directory.path().join("mediamill_tstSplit.txt")).unwrap();
    let error = read(PaperDataset::Mediamill, &directory).unwrap_err().to_string();
    assert!(error.contains("mediamill_tstSplit.txt"), "{error}");
}

#[test]
fn nus_wide_has_its_own_sizes() {
    let directory = tempfile::tempdir().unwrap();
    put(directory.path(), "nus-wide-128_train.txt", b"80,2 1:1 128:1\n 3:1\n");
    put(directory.path(), "nus-wide-128_test.svm.gz", b"0 2:1\n");
    let data = read(PaperDataset::NusWide, &directory).unwrap();
    assert_eq!((data.n_actions, data.train.x.dim(), data.test.x.dim()), (81, (2, 128), (1, 128)));
    assert_eq!(data.train.labels.of(0), [2, 80]);
}

/// NUS-WIDE as Mulan publishes it, with this many label columns: a header and the examples.
fn nus_wide_arff(labels: usize, examples: &str) -> String {
    let features: String = (0..128).map(|i| format!("@attribute Att{i} numeric\n")).collect();
    let nominal: String = (0..labels).map(|i| format!("@ATTRIBUTE label{i} {{0,1}}\n")).collect();
    format!("@relation 'nus-wide: -C 81'\n\n@attribute image string\n{features}{nominal}\n@data\n{examples}")
}

/// A line with 128 features, of which the first two are given, and these of the 81 labels.
fn nus_wide_line(x: [&str; 2], labels: &[usize]) -> String {
    let features = format!("{},{}{}", x[0], x[1], ",0".repeat(126));
    let labels: Vec<&str> = (0..81).map(|a| if labels.contains(&a) { "1" } else { "0" }).collect();
    format!("a/0001.jpg,{features},{}\n", labels.join(","))
}

#[test]
fn nus_wide_is_read_as_published() {
    let directory = tempfile::tempdir().unwrap();
    let [train, test] = ["train", "test"].map(|part| format!("nus-wide-full-cVLADplus-{part}.arff"));
    let lines = nus_wide_line(["3", "-4e0"], &[2, 80]) + "% nothing\n\n" + &nus_wide_line(["0", "0.5"], &[]);
    put(directory.path(), &train, nus_wide_arff(81, &lines).as_bytes());
    let missing = read(PaperDataset::NusWide, &directory).unwrap_err().to_string();
    assert!(missing.contains(&test) && missing.contains("Mulan"), "{missing}");
    put(directory.path(), &test, nus_wide_arff(81, &nus_wide_line(["1", "0"], &[0])).as_bytes());
    let data = read(PaperDataset::NusWide, &directory).unwrap();
    assert_eq!((data.n_actions, data.train.x.dim(), data.test.x.dim()), (81, (2, 128), (1, 128)));
    assert_eq!((data.train.x[(0, 0)], data.train.x[(0, 1)], data.train.x[(1, 1)]), (0.6, -0.8, 1.0));
    assert_eq!((data.train.labels.of(0), data.train.labels.of(1)), (&[2, 80][..], &[][..]));
    assert_eq!(data.test.labels.of(0), [0]);

    let good = nus_wide_line(["1", "0"], &[0]);
    for (text, wanted) in [
        (nus_wide_arff(80, &good), "has 209 attributes; expected a name, 128 features and 81 labels"),
        (nus_wide_arff(81, &good.replacen(",1,", ",", 1)), "209 fields"),
        (nus_wide_arff(81, &nus_wide_line(["1", "x"], &[0])), "\"x\" is not a finite number"),
        (nus_wide_arff(81, &nus_wide_line(["1", "inf"], &[0])), "\"inf\" is not a finite number"),
        (nus_wide_arff(81, &good.replace("0\n", "2\n")), "\"2\" is neither 0 nor 1"),
        (nus_wide_arff(81, ""), "has no examples"),
        (good.clone(), "line 1: is not @relation"),
    ] {
        put(directory.path(), &test, text.as_bytes());
        let error = read(PaperDataset::NusWide, &directory).unwrap_err().to_string();
        assert!(error.contains(wanted) && error.contains(&test), "{wanted}: {error}");
    }
}
