// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Test} from "forge-std/Test.sol";
import {Vm} from "forge-std/Vm.sol";
import {KeyRegistrar} from "../core/KeyRegistrar.sol";
import {LocalCore} from "../core/LocalCore.sol";
import {RewardsCoordinator} from "../core/RewardsCoordinator.sol";
import {TestToken} from "../core/TestToken.sol";
import {Delays} from "../core/Types.sol";
import {Registrar} from "./Registrar.sol";

/// @title The stand-in answers each case of tests/vectors/eigenlayer as EigenLayer's core does
/// @dev A topic's file has scenarios of steps; each scenario starts on a new core in block 10,000, after the topic's
/// "before". A step passes time, signs, adds up, or calls: "as" an actor, "to" a contract, "call" with "with" as in
/// signatures.json. "reverts" or "returns" is what must come back, to the bit; "events" all that is emitted, in order;
/// "emits" the data of one. A name after an at-sign stands for an address, after a dollar for what a step has saved.
/// "gas" is what the transaction costs in the core: here at most that. "lines" name cases of index.json.
contract ConformanceTest is Test {
    string private constant FOLDER = "../tests/vectors/eigenlayer/";

    string private signatures;
    string private topic;
    string[] private names;
    string[] private values;
    mapping(string contractName => address) private targets;

    function setUp() public {
        vm.roll(10_000);
        vm.warp(1_900_000_000);
        signatures = vm.readFile(string.concat(FOLDER, "signatures.json"));
        string[12] memory actors = [
            "slasher",
            "operator",
            "rival",
            "staker",
            "stranger",
            "recipient",
            "admin",
            "appointee",
            "earner",
            "hot key",
            "lonely AVS",
            "somewhere"
        ];
        for (uint256 i; i < actors.length; ++i) {
            _name(actors[i], makeAddr(actors[i]));
        }
        TestToken token = new TestToken();
        _name("another token", address(new TestToken()));
        LocalCore.Core memory core = LocalCore.deploy(address(this), token, Delays(50, 75, 50, 50_400));
        _deployed("Token", address(token));
        _deployed("PermissionController", address(core.permissionController));
        _deployed("AllocationManager", address(core.allocationManager));
        _deployed("DelegationManager", address(core.delegationManager));
        _deployed("StrategyManager", address(core.strategyManager));
        _deployed("StrategyFactory", address(core.strategyFactory));
        _deployed("Strategy", address(core.strategy));
        _deployed(
            "RewardsCoordinator",
            address(
                new RewardsCoordinator(
                    core.allocationManager, core.strategyManager, core.permissionController, address(this), 7 days
                )
            )
        );
        _deployed("KeyRegistrar", address(new KeyRegistrar(core.allocationManager, core.permissionController)));
        _deployed("Registrar", address(new Registrar(core.allocationManager)));
        _name("AVS", targets["Registrar"]);
        _name("core's owner", address(this));
    }

    function test_Sets() public {
        _run("sets");
    }

    function test_Members() public {
        _run("members");
    }

    function test_Allocations() public {
        _run("allocations");
    }

    function test_Slashing() public {
        _run("slashing");
    }

    function test_Slashes() public {
        _run("slashes");
    }

    function test_Leaving() public {
        _run("leaving");
    }

    function test_Withdrawals() public {
        _run("withdrawals");
    }

    function test_Permissions() public {
        _run("permissions");
    }

    function test_Rewards() public {
        _run("rewards");
    }

    function test_Keys() public {
        _run("keys");
    }

    function test_Resolution() public {
        _run("resolution");
    }

    /// @dev Each call is a transaction of its own, which it can only be from here.
    /// forge-config: default.isolate = true
    function test_Gas() public {
        vm.pauseGasMetering();
        topic = vm.readFile(string.concat(FOLDER, "gas.json"));
        string[2] memory lists = ["$.before", "$.scenarios[0].steps"];
        for (uint256 i; i < lists.length; ++i) {
            for (uint256 j; vm.keyExistsJson(topic, _at(lists[i], j)); ++j) {
                _take(_at(lists[i], j));
            }
        }
    }

    /// @dev From outside, so that each step frees its memory.
    function take(string memory step) external {
        _take(step);
    }

    function _take(string memory step) private {
        string memory json = _resolved();
        if (_has(json, step, ".roll")) vm.roll(vm.parseJsonUint(json, string.concat(step, ".roll")));
        if (_has(json, step, ".warp")) vm.warp(vm.parseJsonUint(json, string.concat(step, ".warp")));
        if (_has(json, step, ".call")) _call(json, step);
        if (_has(json, step, ".sign")) _sign(json, step);
        if (_has(json, step, ".sum")) _sum(json, step);
    }

    function _run(string memory name) private {
        vm.pauseGasMetering();
        topic = vm.readFile(string.concat(FOLDER, name, ".json"));
        uint256 state = vm.snapshotState();
        for (uint256 i; vm.keyExistsJson(topic, _at("$.scenarios", i)); ++i) {
            _steps("$.before");
            _steps(string.concat(_at("$.scenarios", i), ".steps"));
            vm.revertToState(state);
        }
    }

    function _steps(string memory list) private {
        for (uint256 i; vm.keyExistsJson(topic, _at(list, i)); ++i) {
            string memory step = _at(list, i);
            try this.take(step) {}
            catch (bytes memory reason) {
                revert(string.concat(step, ": ", _text(reason)));
            }
        }
    }

    /// @dev What an assertion, or anything that reverts with a string, has said.
    function _text(bytes memory reason) private pure returns (string memory) {
        if (reason.length < 68) return vm.toString(reason);
        assembly ("memory-safe") {
            reason := add(reason, 68)
        }
        return string(reason);
    }

    function _call(string memory json, string memory step) private {
        string memory to = vm.parseJsonString(json, string.concat(step, ".to"));
        string memory name = vm.parseJsonString(json, string.concat(step, ".call"));
        string memory signature = string.concat("$.", to, ".functions['", name, "']");
        bytes memory data = abi.encodePacked(
            bytes4(vm.parseJsonBytes(signatures, string.concat(signature, ".selector"))),
            _encoded(json, string.concat(step, ".with"), string.concat(signature, ".inputs"))
        );
        vm.recordLogs();
        vm.prank(vm.parseJsonAddress(json, string.concat(step, ".as")));
        address target = targets[to];
        vm.resumeGasMetering();
        (bool succeeded, bytes memory answer) = target.call(data);
        vm.pauseGasMetering();

        if (_has(json, step, ".reverts")) {
            string memory expected = vm.parseJsonString(json, string.concat(step, ".reverts"));
            assertFalse(succeeded, "the core reverts");
            bytes memory selector =
                bytes(expected).length == 0 ? bytes("") : abi.encodePacked(bytes4(keccak256(bytes(expected))));
            assertEq(answer.length < 4 ? answer : abi.encodePacked(bytes4(answer)), selector, expected);
            return;
        }
        assertTrue(succeeded, vm.toString(answer));
        if (_has(json, step, ".returns")) {
            bytes memory expected =
                _encoded(json, string.concat(step, ".returns"), string.concat(signature, ".outputs"));
            assertEq(answer, expected, "what comes back");
        }
        if (_has(json, step, ".save")) {
            _save(vm.parseJsonString(json, string.concat(step, ".save")), vm.toString(bytes32(answer)));
        }
        if (_has(json, step, ".gas")) {
            assertLe(vm.lastCallGas().gasTotalUsed, vm.parseJsonUint(json, string.concat(step, ".gas")), step);
        }
        _compareLogs(json, step, vm.getRecordedLogs());
    }

    /// @dev "events" are all that the call emits, in order; "emits" is the data of one.
    function _compareLogs(string memory json, string memory step, Vm.Log[] memory logs) private view {
        if (_has(json, step, ".events")) {
            string[] memory expected = vm.parseJsonStringArray(json, string.concat(step, ".events"));
            assertEq(logs.length, expected.length, "number of events");
            for (uint256 i; i < logs.length; ++i) {
                assertEq(logs[i].topics[0], keccak256(bytes(expected[i])), expected[i]);
            }
        }
        if (_has(json, step, ".emits")) {
            string memory name = vm.parseJsonString(json, string.concat(step, ".emits.event"));
            string memory path = vm.parseJsonString(json, string.concat(step, ".to"));
            path = string.concat("$.", path, ".events['", name, "'].data");
            bytes memory data = _encoded(json, string.concat(step, ".emits.data"), path);
            bool found;
            for (uint256 i; i < logs.length; ++i) {
                if (logs[i].topics[0] != keccak256(bytes(name))) continue;
                assertEq(logs[i].data, data, name);
                found = true;
            }
            assertTrue(found, name);
        }
    }

    function _sign(string memory json, string memory step) private {
        (, uint256 key) = makeAddrAndKey(vm.parseJsonString(json, string.concat(step, ".by")));
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, vm.parseJsonBytes32(json, string.concat(step, ".sign")));
        string memory save = vm.parseJsonString(json, string.concat(step, ".save"));
        _save(save, vm.toString(abi.encodePacked(r, s, v)));
    }

    function _sum(string memory json, string memory step) private pure {
        uint256[] memory parts = vm.parseJsonUintArray(json, string.concat(step, ".sum"));
        uint256 sum;
        for (uint256 i; i < parts.length; ++i) {
            sum += parts[i];
        }
        assertEq(sum, vm.parseJsonUint(json, string.concat(step, ".is")), "sum");
    }

    /// @dev Arguments as a call has them: without the offset that a dynamic tuple has before it.
    function _encoded(string memory json, string memory path, string memory types)
        private
        view
        returns (bytes memory encoded)
    {
        string memory tuple = vm.parseJsonString(signatures, string.concat(types, ".tuple"));
        if (bytes(tuple).length == 0) return "";
        encoded = vm.parseJsonType(json, path, tuple);
        if (!vm.parseJsonBool(signatures, string.concat(types, ".dynamic"))) return encoded;
        assembly ("memory-safe") {
            mstore(add(encoded, 32), sub(mload(encoded), 32))
            encoded := add(encoded, 32)
        }
    }

    function _resolved() private view returns (string memory json) {
        json = topic;
        for (uint256 i; i < names.length; ++i) {
            json = vm.replace(json, names[i], values[i]);
        }
    }

    function _name(string memory name, address account) private {
        names.push(string.concat('"@', name, '"'));
        values.push(string.concat('"', vm.toString(account), '"'));
    }

    function _save(string memory name, string memory value) private {
        names.push(string.concat('"$', name, '"'));
        values.push(string.concat('"', value, '"'));
    }

    function _deployed(string memory name, address account) private {
        _name(name, account);
        targets[name] = account;
    }

    function _has(string memory json, string memory step, string memory key) private view returns (bool) {
        return vm.keyExistsJson(json, string.concat(step, key));
    }

    function _at(string memory list, uint256 index) private pure returns (string memory) {
        return string.concat(list, "[", vm.toString(index), "]");
    }
}
