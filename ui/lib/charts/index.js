// Every chart, for pages to import from one place.

export { BudgetBar, IntervalBar, IntervalPlot } from './interval.js';
export { Histogram } from './histogram.js';
export { ExpectedCounts } from './expected.js';
export { ForestPlot } from './forest.js';
export { Waterfall } from './waterfall.js';
export { ProbabilityBars } from './bars.js';
export { TimeSeries } from './timeseries.js';
export { Chart, Numbers } from './frame.js';
