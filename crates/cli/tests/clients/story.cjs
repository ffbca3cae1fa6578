// A whole story by the JavaScript SDK: node story.cjs ENDPOINT.
//
// Two actions go to `sync-<host>`. Both ways are taken: `disableHostPrefix`, and a client that keeps the prefix and
// is led here by its name, as an entry in the hosts file would lead it.
"use strict";

const assert = require("node:assert/strict");
const http = require("node:http");
const sdk = require("@aws-sdk/client-sfn");

const endpoint = process.argv[2];
const role = "arn:aws:iam::123456789012:role/worker";
const settings = {
    endpoint,
    region: "us-east-1",
    credentials: { accessKeyId: "test", secretAccessKey: "test" },
    maxAttempts: 1,
};
const client = new sdk.SFNClient({ ...settings, disableHostPrefix: true });

/** Sends a command by its name. */
const call = (action, input = {}) => client.send(new sdk[`${action}Command`](input));

async function ended(executionArn) {
    for (;;) {
        const found = await call("DescribeExecution", { executionArn });
        if (found.status !== "RUNNING") {
            return found;
        }
    }
}

async function standard() {
    const { activityArn } = await call("CreateActivity", { name: "pack" });
    const definition = JSON.stringify({
        StartAt: "Pack",
        States: { Pack: { Type: "Task", Resource: activityArn, End: true } },
    });
    const made = await call("CreateStateMachine", { name: "packing", definition, roleArn: role, publish: true });
    assert.ok(made.creationDate instanceof Date);
    const stateMachineArn = made.stateMachineArn;
    assert.equal(made.stateMachineVersionArn, `${stateMachineArn}:1`);
    const described = await call("DescribeStateMachine", { stateMachineArn });
    assert.deepEqual([described.status, described.definition], ["ACTIVE", definition]);

    const routingConfiguration = [{ stateMachineVersionArn: `${stateMachineArn}:1`, weight: 100 }];
    const alias = await call("CreateStateMachineAlias", { name: "live", routingConfiguration });
    const { executionArn } = await call("StartExecution", {
        stateMachineArn: alias.stateMachineAliasArn,
        name: "first",
        input: '{"box": "ü"}',
    });
    const task = await call("GetActivityTask", { activityArn, workerName: "packer" });
    assert.deepEqual(JSON.parse(task.input), { box: "ü" });
    await call("SendTaskHeartbeat", { taskToken: task.taskToken });
    await call("SendTaskFailure", { taskToken: task.taskToken, error: "Torn", cause: "the box is torn" });
    const failed = await ended(executionArn);
    assert.deepEqual([failed.status, failed.error, failed.redriveStatus], ["FAILED", "Torn", "REDRIVABLE"]);

    await call("RedriveExecution", { executionArn });
    const again = await call("GetActivityTask", { activityArn });
    await call("SendTaskSuccess", { taskToken: again.taskToken, output: '{"packed": true}' });
    const done = await ended(executionArn);
    assert.deepEqual([done.status, done.redriveCount, JSON.parse(done.output)], ["SUCCEEDED", 1, { packed: true }]);

    const events = [];
    for await (const page of sdk.paginateGetExecutionHistory({ client, pageSize: 3 }, { executionArn })) {
        events.push(...page.events);
    }
    assert.deepEqual(events.map((event) => event.id), Array.from(events, (_, at) => at + 1));
    const redriven = events.find((event) => event.type === "ExecutionRedriven");
    assert.equal(redriven.executionRedrivenEventDetails.redriveCount, 1);

    const taken = { stateMachineArn, name: "first", input: "{}" };
    await assert.rejects(call("StartExecution", taken), (error) => {
        assert.ok(error instanceof sdk.ExecutionAlreadyExists, error);
        return error.message === `Execution Already Exists: '${executionArn}'`;
    });
    await call("TagResource", { resourceArn: stateMachineArn, tags: [{ key: "team", value: "shop" }] });
    const { tags } = await call("ListTagsForResource", { resourceArn: stateMachineArn });
    assert.deepEqual(tags, [{ key: "team", value: "shop" }]);
    await call("DeleteStateMachineAlias", { stateMachineAliasArn: alias.stateMachineAliasArn });
    await call("DeleteStateMachine", { stateMachineArn });
    await call("DeleteActivity", { activityArn });
    await assert.rejects(call("DescribeActivity", { activityArn }), sdk.ActivityDoesNotExist);
}

async function express(by) {
    const definition = JSON.stringify({ StartAt: "A", States: { A: { Type: "Pass", Result: 17, End: true } } });
    const machine = { name: "quick", definition, roleArn: role, type: "EXPRESS" };
    const { stateMachineArn } = await call("CreateStateMachine", machine);
    const answer = await by.send(new sdk.StartSyncExecutionCommand({ stateMachineArn }));
    assert.deepEqual([answer.status, answer.output], ["SUCCEEDED", "17"]);
    const test = { definition: '{"Type": "Succeed"}', roleArn: role, input: "5" };
    const tested = await by.send(new sdk.TestStateCommand(test));
    assert.deepEqual([tested.status, tested.output], ["SUCCEEDED", "5"]);
}

/** Resolves any name to this machine, and remembers which. */
function led(names) {
    const agent = new http.Agent({
        lookup: (name, options, done) => {
            names.add(name);
            const here = { address: "127.0.0.1", family: 4 };
            return options.all ? done(null, [here]) : done(null, here.address, here.family);
        },
    });
    const { NodeHttpHandler } = require("@smithy/node-http-handler");
    return new NodeHttpHandler({ httpAgent: agent });
}

async function main() {
    await standard();
    await express(client);
    const names = new Set();
    const named = endpoint.replace("127.0.0.1", "states.internal");
    await express(new sdk.SFNClient({ ...settings, endpoint: named, requestHandler: led(names) }));
    assert.deepEqual([...names], ["sync-states.internal"]);
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});
