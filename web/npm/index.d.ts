// Types of the npm package. What an answer holds is described by docs/schemas of the repository.

export interface Question {
  /** As they are typed behind `gpuplan`. */
  arguments: string[];
  /** Content by path: nothing else is read. */
  files?: Record<string, string>;
  variables?: Record<string, string>;
  /** Seconds since 1970, UTC. Default: now. */
  now?: number;
  cores?: number;
  /** Standard input. */
  input?: string;
  /** Columns of the text. Default 100. */
  width?: number;
}

export interface Answer {
  /** 0 yes, 1 the answer is no, 2 wrong input, 3 something is missing here, 4 a bug. */
  code: number;
  out: string;
  err: string;
  written: Record<string, string>;
}

/** Flags of a command in camel case: {model: 'llama3-8b', lora: 'r=8', gpus: '4xA6000', seqLen: 4096}. True is a flag without a value. */
export type Options = Record<string, string | number | boolean | undefined | null>;
export type Files = Record<string, string>;

export interface Model {
  name: string;
  id: string;
}

export interface StrategyEstimate {
  name: string;
  fits: 'yes' | 'tight' | 'if-host' | 'unlikely' | 'no';
  /** That its memory is found. */
  probability: number;
  not_applicable: string | null;
  does_not_fit_because: string | null;
  process_bytes: number | null;
  peak_bytes_low: number | null;
  peak_bytes_high: number | null;
  usable_bytes: number | null;
  step_seconds: number | null;
  step_seconds_low: number | null;
  step_seconds_high: number | null;
  tokens_per_second: number | null;
  total_seconds: number | null;
  cost_usd: number | null;
  memory_bytes: Record<string, number> | null;
  [key: string]: unknown;
}

export interface Estimate {
  gpuplan_version: string;
  model: Model & {parameters: number; trainable_parameters: number};
  strategies: StrategyEstimate[];
  recommended: {strategy: string | null; reason: string; advice: string[]} | null;
  assumptions: string[];
  [key: string]: unknown;
}

export interface Simulation {
  gpuplan_version: string;
  model: Model;
  strategy: string;
  fits: boolean;
  step_seconds: number;
  tokens_per_second: number;
  [key: string]: unknown;
}

export interface Plan {
  gpuplan_version: string;
  model: Model;
  recommended: Record<string, unknown> | null;
  frontier: Record<string, unknown>[];
  [key: string]: unknown;
}

/** Any question, its answer as the program gives it. */
export function answer(question: Question): Promise<Answer>;

/** The answer of `gpuplan estimate --json`. Throws GpuplanError for wrong input. */
export function estimate(options: Options, files?: Files): Promise<Estimate>;
export function simulate(options: Options, files?: Files): Promise<Simulation>;
export function plan(options: Options, files?: Files): Promise<Plan>;
export function gpus(): Promise<{gpus: Record<string, unknown>[]}>;
export function models(): Promise<{models: Record<string, unknown>[]}>;

export class GpuplanError extends Error {
  code: number;
}
