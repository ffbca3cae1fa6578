// What examples/workers/worker.ts uses of Node, so that its types are checked where @types/node is not installed.
declare module "node:http" {
  export interface IncomingMessage extends AsyncIterable<string> {
    headers: Record<string, string | string[] | undefined>;
    setEncoding(encoding: string): this;
  }
  export interface ServerResponse {
    writeHead(status: number, headers: Record<string, string>): this;
    end(body: string): this;
  }
  export interface Server {
    listen(port: number, host: string, ready: () => void): this;
    address(): { port: number } | string | null;
  }
  export function createServer(answer: (request: IncomingMessage, response: ServerResponse) => void): Server;
}
declare module "node:fs" {
  export function existsSync(path: string): boolean;
  export function fsyncSync(file: number): void;
  export function openSync(path: string, flags: string): number;
  export function readFileSync(path: string, encoding: "utf8"): string;
  export function truncateSync(path: string, bytes: number): void;
  export function writeSync(file: number, text: string): number;
}
declare const process: { argv: string[] };
declare const console: { log(text: string): void };
declare const Buffer: { byteLength(text: string): number };
