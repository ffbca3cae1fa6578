"""Lists come in pages. A page's token outlives a restart, belongs to its list, and cannot be made up."""

import sys

from wire import PASS, ROLE, client, ended, machine, refused, restart, same

sfn = client(sys.argv[1])
COUNT = 7

for number in range(COUNT):
    sfn.create_state_machine(name=f"machine-{number}", definition=PASS, roleArn=ROLE)
    sfn.create_activity(name=f"activity-{number}")
arn = sfn.create_state_machine(name="orders", definition=PASS, roleArn=ROLE)["stateMachineArn"]
for number in range(COUNT):
    number_machine = machine({"Done": {"Type": "Pass", "Result": number, "End": True}})
    version = sfn.update_state_machine(stateMachineArn=arn, definition=number_machine, publish=True)
    route = [{"stateMachineVersionArn": version["stateMachineVersionArn"], "weight": 100}]
    sfn.create_state_machine_alias(name=f"alias-{number}", routingConfiguration=route)
executions = [sfn.start_execution(stateMachineArn=arn)["executionArn"] for _ in range(COUNT)]
for execution in executions:
    ended(sfn, execution)


def each(name, **more):
    processor = {
        "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"},
        "StartAt": name,
        "States": {name: {"Type": "Pass", "End": True}},
    }
    return {"Type": "Map", "ItemProcessor": processor, **more}


runs = machine({"A": each("P", Next="B"), "B": each("Q", Next="C"), "C": each("R", End=True)})
runs = sfn.create_state_machine(name="runs", definition=runs, roleArn=ROLE)["stateMachineArn"]
run = sfn.start_execution(stateMachineArn=runs, input="[1, 2, 3]")["executionArn"]
ended(sfn, run)
first_run = sfn.list_map_runs(executionArn=run)["mapRuns"][0]["mapRunArn"]

# Action, parameters, list, what tells its entries apart, how many there are.
LISTS = [
    ("list_state_machines", {}, "stateMachines", "name", COUNT + 2),
    ("list_activities", {}, "activities", "name", COUNT),
    ("list_executions", {"stateMachineArn": arn}, "executions", "executionArn", COUNT),
    ("list_executions", {"mapRunArn": first_run}, "executions", "executionArn", 3),
    (
        "list_state_machine_versions",
        {"stateMachineArn": arn},
        "stateMachineVersions",
        "stateMachineVersionArn",
        COUNT,
    ),
    (
        "list_state_machine_aliases",
        {"stateMachineArn": arn},
        "stateMachineAliases",
        "stateMachineAliasArn",
        COUNT,
    ),
    ("list_map_runs", {"executionArn": run}, "mapRuns", "mapRunArn", 3),
    ("get_execution_history", {"executionArn": executions[0]}, "events", "id", 4),
    ("get_execution_history", {"executionArn": executions[0], "reverseOrder": True}, "events", "id", 4),
]

begun = []
for action, params, key, name, count in LISTS:
    ask = getattr(sfn, action)
    whole = ask(**params)
    assert "nextToken" not in whole, (action, whole)
    whole = [one[name] for one in whole[key]]
    same(len(whole), count, action)
    page = ask(**params, maxResults=2)
    assert 1 <= len(page["nextToken"]) <= 3096, (action, page)
    same([one[name] for one in page[key]], whole[:2], action)
    begun.append((whole, page["nextToken"]))
    same(len(ask(**params, maxResults=count)[key]), count, action)
    assert "nextToken" not in ask(**params, maxResults=count), action
    # 0 stands for the default.
    same(len(ask(**params, maxResults=0)[key]), count, action)
    too_many = (
        "1 validation error detected: Value '1001' at 'maxResults' failed to satisfy constraint: "
        "Member must have value less than or equal to 1000"
    )
    refused("ValidationException", too_many, ask, **params, maxResults=1001)
    refused("InvalidToken", "Invalid Token: 'Invalid token'", ask, **params, nextToken="made-up")
    altered = page["nextToken"][:-2] + ("AA" if page["nextToken"][-2:] != "AA" else "BB")
    refused("InvalidToken", "Invalid Token: 'Invalid token'", ask, **params, nextToken=altered)

# A token of one list is no token of another.
for (action, params, *_), (_, token) in zip(LISTS, begun[1:] + begun[:1]):
    refused("InvalidToken", "Invalid Token: 'Invalid token'", getattr(sfn, action), **params, nextToken=token)

sfn = client(restart())
for (action, params, key, name, count), (whole, token) in zip(LISTS, begun):
    found, pages = whole[:2], 1
    while token:
        page = getattr(sfn, action)(**params, maxResults=2, nextToken=token)
        assert len(page[key]) <= 2, page
        found, pages, token = found + [one[name] for one in page[key]], pages + 1, page.get("nextToken")
    same(found, whole, action)
    same(pages, (count + 1) // 2, action)

# The paginators of the client see everything once.
for action, params, key, name, count in LISTS:
    if sfn.can_paginate(action):
        pages = sfn.get_paginator(action).paginate(**params, PaginationConfig={"PageSize": 3})
        found = [one[name] for page in pages for one in page[key]]
        same((len(found), len(set(found))), (count, count), action)
