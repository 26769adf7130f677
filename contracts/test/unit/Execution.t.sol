// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {DeregisterParams} from "../../src/interfaces/IEigenLayer.sol";
import {IServiceManager} from "../../src/interfaces/IServiceManager.sol";
import {IMarket} from "../../src/interfaces/IMarket.sol";
import {Admission, ITaskMarket, Leaf, Opening, Order, State, Task} from "../../src/interfaces/ITaskMarket.sol";
import {Merkle} from "../../src/libraries/Merkle.sol";
import {Terms} from "../../src/libraries/Terms.sol";
import {MarketFixture} from "../MarketFixture.sol";

contract ExecutionTest is MarketFixture {
    function test_Accept_FixesThePriceAndHoldsTheCollateral() public {
        Order memory order = _order();
        bytes32 task = _post(order);
        vm.roll(block.number + 10);
        uint256 collateral = 2 * (p.gDef + 2 * 0.02 ether) + order.checkFee;

        vm.expectEmit(address(market));
        emit ITaskMarket.Accepted(task, operator, 0.02 ether, collateral);
        vm.prank(signer);
        market.accept(operator, order, _nobodyElse());

        Task memory t = market.taskAt(task);
        _assertState(task, State.Accepted);
        assertEq(t.executor, operator, "executor");
        assertEq(t.acceptedAt, block.number, "acceptedAt");
        assertEq(t.exec, order.exec, "exec");
        assertEq(_balance(operator), 10 ether - collateral, "balance");
        assertEq(_held(operator), collateral, "collateral");
        assertEq(market.deadlineOf(task), block.number + order.exec, "commitBy");
    }

    function test_Accept_InTheLastBlock() public {
        Order memory order = _order();
        bytes32 task = _post(order);
        vm.roll(order.acceptBy);
        _accept(order);
        _assertState(task, State.Accepted);
    }

    function test_RevertWhen_AcceptedAfterAcceptBy() public {
        Order memory order = _order();
        _post(order);
        vm.roll(order.acceptBy + 1);
        _assertNotAccepted(order, abi.encodeWithSelector(IMarket.TooLate.selector, block.number, order.acceptBy));
    }

    function test_RevertWhen_TheCallerIsNotTheSigner() public {
        Order memory order = _order();
        _post(order);
        vm.expectRevert(abi.encodeWithSelector(IMarket.NotTheSigner.selector, operator, signer));
        vm.prank(operator);
        market.accept(operator, order, _nobodyElse());
    }

    function test_RevertWhen_TheOperatorHasLeft() public {
        Order memory order = _order();
        _post(order);
        vm.prank(operator);
        core.allocationManager.deregisterFromOperatorSets(DeregisterParams(operator, address(manager), new uint32[](1)));
        _assertNotAccepted(order, abi.encodeWithSelector(IMarket.NotAMember.selector, operator));
    }

    function test_RevertWhen_AcceptedTwice() public {
        Order memory order = _order();
        bytes32 task = _post(order);
        _accept(order);
        vm.expectRevert(abi.encodeWithSelector(ITaskMarket.WrongState.selector, task, State.Open, State.Accepted));
        vm.prank(rivalSigner);
        market.accept(rival, order, _nobodyElse());
    }

    function test_RevertWhen_TheOrderWasNeverPosted() public {
        Order memory order = _order();
        _assertNotAccepted(
            order, abi.encodeWithSelector(ITaskMarket.WrongState.selector, market.taskOf(order), State.Open, State.None)
        );
    }

    function test_RevertWhen_TheBalanceDoesNotCoverTheCollateral() public {
        Order memory order = _order();
        _post(order);
        uint256 collateral = _collateral(order);
        vm.prank(operator);
        market.withdraw(operator, 10 ether - collateral + 1);
        _assertNotAccepted(
            order, abi.encodeWithSelector(IMarket.InsufficientBalance.selector, operator, collateral - 1, collateral)
        );
    }

    /// @dev Invariant 17 at its edge.
    function test_Accept_UpToTheOwnersCap() public {
        Order memory first = _order();
        Order memory second = _order();
        second.nonce = 2;
        _post(first);
        _post(second);
        (uint256 collateral, uint256 tied) = (_collateral(first), _tied(operator));
        uint256 cap = tied + 2 * collateral;
        vm.prank(operator);
        manager.setSigner(signer, uint96(cap - 1), CAP);
        _accept(first);
        _assertNotAccepted(
            second,
            abi.encodeWithSelector(
                IMarket.CollateralCapExceeded.selector, operator, tied + collateral, collateral, cap - 1
            )
        );
        vm.prank(operator);
        manager.setSigner(signer, uint96(cap), CAP);
        _accept(second);
        assertEq(_held(operator), 2 * collateral, "collateral");
    }

    /// @dev Invariant 38: the core's delays may change after the deployment.
    function test_RevertWhen_TheStakeCouldLeaveBeforeTheEnd() public {
        Order memory order = _order();
        _post(order);
        uint256 lifetime = Terms.lifetime(p, order.exec);
        vm.mockCall(
            address(core.allocationManager),
            abi.encodeWithSignature("DEALLOCATION_DELAY()"),
            abi.encode(uint32(lifetime - 1))
        );
        _assertNotAccepted(order, abi.encodeWithSelector(IMarket.OutlivesStake.selector, lifetime, lifetime - 1));
        vm.clearMockedCalls();
        _accept(order);
    }

    function test_Accept_ByAnAdmittedOperator() public {
        (bytes32 root, address[3] memory sorted) = _admitted();
        Order memory order = _order();
        order.operators = root;
        bytes32 task = _post(order);
        uint32 index = sorted[0] == operator ? 0 : sorted[1] == operator ? 1 : 2;
        Admission memory admission = Admission(index, 3, _path(sorted, index));
        vm.prank(signer);
        market.accept(operator, order, admission);
        _assertState(task, State.Accepted);
    }

    function test_RevertWhen_TheOperatorIsNotAdmitted() public {
        (bytes32 root, address[3] memory sorted) = _admitted();
        Order memory order = _order();
        order.operators = root;
        _post(order);
        address stranger = makeAddr("stranger");
        _join(stranger, stranger, 1 ether);
        bytes memory reason = abi.encodeWithSelector(ITaskMarket.NotAdmitted.selector, stranger, root);
        vm.startPrank(stranger);
        for (uint32 i; i < 4; ++i) {
            Admission memory admission = Admission(i, 3, _path(sorted, i));
            vm.expectRevert(reason);
            market.accept(stranger, order, admission);
        }
        vm.expectRevert(reason);
        market.accept(stranger, order, _nobodyElse());
    }

    function test_AcceptMany_SkipsWhatARivalTook() public {
        (Order[] memory orders, bytes32[] memory tasks) = _many(3);
        vm.prank(rivalSigner);
        market.accept(rival, orders[1], _nobodyElse());

        vm.prank(signer);
        market.acceptMany(operator, orders, new Admission[](3));

        assertEq(market.taskAt(tasks[0]).executor, operator, "first");
        assertEq(market.taskAt(tasks[1]).executor, rival, "second");
        assertEq(market.taskAt(tasks[2]).executor, operator, "third");
        assertEq(_held(operator), 2 * _collateral(orders[0]), "collateral");
    }

    /// @dev What time or somebody else has moved on, or holds up, does not stop the others.
    function test_ManyForms_SkipWhatCannotBeDoneAnyMore() public {
        (Order[] memory orders, bytes32[] memory tasks) = _many(4);
        bytes32[] memory commitments = new bytes32[](4);
        Opening[] memory openings = new Opening[](4);
        for (uint256 i; i < 4; ++i) {
            commitments[i] = _commitment(tasks[i], SALT);
            openings[i] = Opening(tasks[i], 0, ROOT, SALT);
        }
        vm.roll(orders[0].acceptBy + 1); // too late for all but one
        orders[3].acceptBy += 10;
        orders[3].nonce = 99;
        tasks[3] = _post(orders[3]);
        commitments[3] = _commitment(tasks[3], SALT);
        openings[3].task = tasks[3];
        vm.startPrank(signer);
        market.acceptMany(operator, orders, new Admission[](4));
        vm.stopPrank();
        _assertState(tasks[0], State.Open);
        _assertState(tasks[3], State.Accepted);
    }

    function test_CommitMany_SkipsWhatIsTooLateOrOver() public {
        (Order[] memory orders, bytes32[] memory tasks) = _many(3);
        bytes32[] memory commitments = new bytes32[](3);
        for (uint256 i; i < 3; ++i) {
            commitments[i] = _commitment(tasks[i], SALT);
        }
        vm.prank(signer);
        market.accept(operator, orders[0], _nobodyElse());
        vm.prank(signer);
        market.accept(operator, orders[1], _nobodyElse());
        _pass(tasks[0]);
        market.close(orders[0]);
        vm.startPrank(signer);
        market.accept(operator, orders[2], _nobodyElse());
        market.commitMany(operator, tasks, commitments);
        vm.stopPrank();
        _assertState(tasks[0], State.Failed);
        _assertState(tasks[1], State.Accepted);
        _assertState(tasks[2], State.Committed);
        vm.prank(rivalSigner);
        vm.expectRevert(abi.encodeWithSelector(ITaskMarket.WrongState.selector, 0, State.Accepted, State.None));
        market.commitMany(rival, new bytes32[](1), _listOf(commitments[0]));
    }

    /// @dev One of each that cannot be closed: not yet, no more, held up by a game, and held up by a demand.
    function test_CloseMany_SkipsWhatCannotBeClosed() public {
        (Order[] memory orders, bytes32[] memory tasks) = _many(5);
        for (uint256 i; i < 4; ++i) {
            vm.prank(signer);
            market.accept(operator, orders[i], _nobodyElse());
            _commit(tasks[i]);
        }
        _seedWith(market.seedBlockOf(tasks[0]), _mixForNone(orders));
        for (uint256 i; i < 4; ++i) {
            _reveal(orders[i]);
        }
        vm.roll(market.deadlineOf(tasks[0]));
        _challenge(orders[0], rival);
        vm.prank(client);
        market.demand(orders[1], new Leaf[](1));
        vm.roll(block.number + 1);
        market.close(orders[2]);
        vm.prank(anybody);
        market.closeMany(orders);
        _assertState(tasks[0], State.Revealed);
        _assertState(tasks[1], State.Revealed);
        _assertState(tasks[2], State.Final);
        _assertState(tasks[3], State.Final);
        _assertState(tasks[4], State.Open);
    }

    function _listOf(bytes32 one) private pure returns (bytes32[] memory list) {
        list = new bytes32[](1);
        list[0] = one;
    }

    function test_RevealMany_SkipsWhatIsTooLate() public {
        (Order[] memory orders, bytes32[] memory tasks) = _many(2);
        Opening[] memory openings = new Opening[](2);
        for (uint256 i; i < 2; ++i) {
            openings[i] = Opening(tasks[i], 0, ROOT, SALT);
        }
        vm.prank(signer);
        market.accept(operator, orders[0], _nobodyElse());
        _commit(tasks[0]);
        _seed(orders[0], false);
        vm.roll(market.deadlineOf(tasks[0]) + 1);
        vm.prank(signer);
        market.accept(operator, orders[1], _nobodyElse());
        _commit(tasks[1]);
        _seed(orders[1], false);
        market.revealMany(orders, openings);
        _assertState(tasks[0], State.Committed);
        _assertState(tasks[1], State.Revealed);
    }

    /// @dev Invariant 44.
    function test_RevertWhen_EigenLayersSlashingIsPaused() public {
        Order memory order = _order();
        _post(order);
        core.allocationManager.pause(2);
        assertEq(manager.freeStake(operator, block.number + 1), 0, "nothing can be promised");
        _assertNotAccepted(order, abi.encodeWithSelector(IServiceManager.SlashingPaused.selector));
        core.allocationManager.unpause(0);
        core.allocationManager.pause(1); // allocations: nothing that a slash needs
        _accept(order);
    }

    function test_Commit_StoresTheCommitment() public {
        Order memory order = _order();
        bytes32 task = _post(order);
        _accept(order);
        bytes32 commitment = _commitment(task, SALT);
        vm.roll(market.deadlineOf(task));

        vm.expectEmit(address(market));
        emit ITaskMarket.Committed(task, commitment);
        _commit(task);

        _assertState(task, State.Committed);
        assertEq(market.taskAt(task).claim, commitment, "claim");
        assertEq(market.outputsRootOf(task), 0, "nothing is revealed");
        assertEq(market.seedBlockOf(task), block.number + p.lag, "seed block");
        assertEq(market.deadlineOf(task), block.number + p.lag + p.record, "the seed's record comes first");
        assertEq(market.taskAt(task).committedAt, block.number, "committedAt");
        assertEq(market.taskAt(task).seats, 3, "seats");
    }

    function test_RevertWhen_CommittedTooLate() public {
        Order memory order = _order();
        bytes32 task = _post(order);
        _accept(order);
        uint256 commitBy = market.deadlineOf(task);
        _pass(task);
        vm.expectRevert(abi.encodeWithSelector(IMarket.TooLate.selector, commitBy + 1, commitBy));
        vm.prank(signer);
        market.commit(operator, task, bytes32(uint256(1)));
    }

    function test_RevertWhen_AnotherOperatorCommits() public {
        Order memory order = _order();
        bytes32 task = _post(order);
        _accept(order);
        vm.expectRevert(abi.encodeWithSelector(ITaskMarket.NotTheExecutor.selector, rival, operator));
        vm.prank(rivalSigner);
        market.commit(rival, task, bytes32(uint256(1)));
    }

    function test_RevertWhen_CommittedTwice() public {
        Order memory order = _order();
        bytes32 task = _post(order);
        _accept(order);
        _commit(task);
        vm.expectRevert(abi.encodeWithSelector(ITaskMarket.WrongState.selector, task, State.Accepted, State.Committed));
        vm.prank(signer);
        market.commit(operator, task, bytes32(uint256(1)));
    }

    function test_Commit_ByTheNewSignerAfterAChange() public {
        Order memory order = _order();
        bytes32 task = _post(order);
        _accept(order);
        address fresh = makeAddr("fresh signer");
        vm.prank(operator);
        manager.setSigner(fresh, CAP, CAP);
        bytes32 commitment = _commitment(task, SALT);

        vm.expectRevert(abi.encodeWithSelector(IMarket.NotTheSigner.selector, signer, fresh));
        vm.prank(signer);
        market.commit(operator, task, commitment);

        vm.prank(fresh);
        market.commit(operator, task, commitment);
        _assertState(task, State.Committed);
    }

    function test_Reveal_ByAnybodyOnceTheSeedIsKnown() public {
        Order memory order = _order();
        bytes32 task = _post(order);
        _accept(order);
        _commit(task);
        vm.expectRevert(abi.encodeWithSelector(IMarket.NoSeed.selector, market.seedBlockOf(task)));
        market.reveal(order, Opening(task, 0, ROOT, SALT));
        _seed(order, false);
        vm.expectEmit(address(market));
        emit ITaskMarket.Revealed(task, 0, ROOT);
        _reveal(order);
        _assertState(task, State.Revealed);
        assertEq(market.outputsRootOf(task), ROOT, "outputs root");
        assertEq(market.deadlineOf(task), block.number + order.exec + p.challenge, "challengeBy");
    }

    function test_RevertWhen_RevealedTooLate() public {
        Order memory order = _order();
        bytes32 task = _post(order);
        _accept(order);
        _commit(task);
        _seed(order, false);
        uint256 revealBy = market.deadlineOf(task);
        assertEq(revealBy, market.seedBlockOf(task) + p.record + p.reveal, "revealBy");
        _pass(task);
        vm.expectRevert(abi.encodeWithSelector(IMarket.TooLate.selector, revealBy + 1, revealBy));
        market.reveal(order, Opening(task, 0, ROOT, SALT));
    }

    function test_RevertWhen_TheOpeningDoesNotFit() public {
        Order memory order = _order();
        bytes32 task = _post(order);
        _accept(order);
        _commit(task);
        _seed(order, false);
        bytes32 opened = _commitment(task, bytes32(0));
        vm.expectRevert(abi.encodeWithSelector(IMarket.WrongOpening.selector, task, _commitment(task, SALT), opened));
        market.reveal(order, Opening(task, 0, ROOT, 0));
        vm.expectRevert(abi.encodeWithSelector(IMarket.WrongTask.selector, task, ROOT));
        market.reveal(order, Opening(ROOT, 0, ROOT, SALT));
    }

    function test_RevertWhen_RevealedBeforeTheCommit() public {
        Order memory order = _order();
        bytes32 task = _post(order);
        _accept(order);
        vm.expectRevert(abi.encodeWithSelector(ITaskMarket.WrongState.selector, task, State.Committed, State.Accepted));
        market.reveal(order, Opening(task, 0, ROOT, SALT));
    }

    function test_ManyForms_WorkOffSeveralTasksAndSkipWhatIsDone() public {
        (Order[] memory orders, bytes32[] memory tasks) = _many(3);
        bytes32[] memory commitments = new bytes32[](3);
        Opening[] memory openings = new Opening[](3);
        for (uint256 i; i < 3; ++i) {
            commitments[i] = _commitment(tasks[i], SALT);
            openings[i] = Opening(tasks[i], 0, ROOT, SALT);
        }
        vm.startPrank(signer);
        market.acceptMany(operator, orders, new Admission[](3));
        market.commitMany(operator, tasks, commitments);
        vm.stopPrank();
        _seedWith(market.seedBlockOf(tasks[0]), _mixForNone(orders));
        vm.startPrank(anybody);
        market.reveal(orders[2], openings[2]);
        market.revealMany(orders, openings);
        vm.roll(block.number + orders[0].exec + p.challenge + 1);
        market.close(orders[0]);
        market.closeMany(orders);
        for (uint256 i; i < 3; ++i) {
            _assertState(tasks[i], State.Final);
        }
        vm.stopPrank();
        assertEq(_balance(operator), 10 ether + 3 * orders[0].minPrice, "balance");
        assertEq(manager.lockedStake(operator), 0, "stake");
        assertEq(_held(operator), 0, "collateral");
    }

    function test_RevertWhen_ListsOfABatchDiffer() public {
        vm.startPrank(signer);
        vm.expectRevert(abi.encodeWithSelector(IMarket.LengthMismatch.selector, 1, 0));
        market.acceptMany(operator, new Order[](1), new Admission[](0));
        vm.expectRevert(abi.encodeWithSelector(IMarket.LengthMismatch.selector, 1, 2));
        market.commitMany(operator, new bytes32[](1), new bytes32[](2));
        vm.expectRevert(abi.encodeWithSelector(IMarket.LengthMismatch.selector, 2, 0));
        market.revealMany(new Order[](2), new Opening[](0));
    }

    function _collateral(Order memory order) private view returns (uint256) {
        return Terms.collateral(p, order.minPrice, order.verifiers, order.checkFee);
    }

    function _assertNotAccepted(Order memory order, bytes memory reason) private {
        vm.expectRevert(reason);
        vm.prank(signer);
        market.accept(operator, order, _nobodyElse());
    }

    function _many(uint256 count) private returns (Order[] memory orders, bytes32[] memory tasks) {
        orders = new Order[](count);
        tasks = new bytes32[](count);
        for (uint256 i; i < count; ++i) {
            orders[i] = _order();
            orders[i].nonce = i;
            tasks[i] = _post(orders[i]);
        }
    }

    /// @dev The list of operator, rival and one more, sorted ascending, and its root.
    function _admitted() private returns (bytes32 root, address[3] memory sorted) {
        sorted = [operator, rival, makeAddr("third")];
        for (uint256 pass; pass < 2; ++pass) {
            for (uint256 i; i < 2; ++i) {
                if (sorted[i] > sorted[i + 1]) (sorted[i], sorted[i + 1]) = (sorted[i + 1], sorted[i]);
            }
        }
        bytes32 left = Merkle.node(Merkle.operatorHash(sorted[0]), Merkle.operatorHash(sorted[1]));
        bytes32 right = Merkle.node(Merkle.operatorHash(sorted[2]), 0);
        root = Merkle.operatorsRootOf(3, Merkle.node(left, right));
    }

    function _path(address[3] memory sorted, uint32 index) private pure returns (bytes32[] memory path) {
        bytes32[4] memory leaves;
        for (uint256 i; i < 3; ++i) {
            leaves[i] = Merkle.operatorHash(sorted[i]);
        }
        path = new bytes32[](2);
        path[0] = leaves[index ^ 1];
        path[1] = index < 2 ? Merkle.node(leaves[2], leaves[3]) : Merkle.node(leaves[0], leaves[1]);
    }
}
