// A file that was dropped on one page for another: the home page hands it to the upload page.

let file = null;

/** Leaves a file for the upload page. */
export const leave = (dropped) => {
  file = dropped;
};

/** Takes the file, once. */
export const take = () => {
  const found = file;
  file = null;
  return found;
};
