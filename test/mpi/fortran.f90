! SPDX-License-Identifier: Apache-2.0
! fortran.f90 - calls from Fortran; the last line of rank 0 is as that of the other programs.
program fortran
  use mpi
  implicit none
  integer, parameter :: count = 1000
  integer :: rank, ranks, wrong, taken, comm, error, request, indices(2), done, index
  integer :: mine(count), total(count), blocks(count, 64), requests(2)
  integer :: status(MPI_STATUS_SIZE), statuses(MPI_STATUS_SIZE, 2)
  logical :: flag

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, error)
  wrong = 0
  taken = 6
  mine = rank + 1

  call MPI_Allreduce(mine, total, count, MPI_INTEGER, MPI_SUM, comm, error)
  if (any(total /= ranks * (ranks + 1) / 2)) wrong = wrong + 1
  total = mine
  call MPI_Allreduce(MPI_IN_PLACE, total, count, MPI_INTEGER, MPI_MAX, comm, error)
  if (any(total /= ranks)) wrong = wrong + 1
  total = 0
  call MPI_Reduce(mine, total, count, MPI_INTEGER, MPI_SUM, 1, comm, error)
  if (rank == 1 .and. any(total /= ranks * (ranks + 1) / 2)) wrong = wrong + 1
  call MPI_Bcast(total, count, MPI_INTEGER, 1, comm, error)
  if (any(total /= ranks * (ranks + 1) / 2)) wrong = wrong + 1
  call MPI_Barrier(comm, error)
  blocks = rank + 1
  call MPI_Reduce_scatter_block(blocks, total, count, MPI_INTEGER, MPI_SUM, comm, error)
  if (any(total /= ranks * (ranks + 1) / 2)) wrong = wrong + 1
  call MPI_Allgather(mine, count, MPI_INTEGER, blocks, count, MPI_INTEGER, comm, error)
  if (any(blocks(:, ranks) /= ranks)) wrong = wrong + 1
  taken = taken + 2

  ! Started, and asked for in each way.
  call start(request)
  call MPI_Wait(request, status, error)
  call check(request)
  call start(request)
  flag = .false.
  do while (.not. flag)
    call MPI_Test(request, flag, status, error)
  end do
  call check(request)
  call start(request)
  flag = .false.
  do while (.not. flag)
    call MPI_Request_get_status(request, flag, status, error)
  end do
  call MPI_Wait(request, MPI_STATUS_IGNORE, error)
  call check(request)
  call start_two()
  call MPI_Waitall(2, requests, statuses, error)
  call check_two()
  call start_two()
  call MPI_Waitany(2, requests, index, status, error)
  if (index < 1 .or. index > 2) wrong = wrong + 1
  call MPI_Waitany(2, requests, index, status, error)
  call check_two()
  call start_two()
  done = 0
  do while (any(requests /= MPI_REQUEST_NULL))
    call MPI_Waitsome(2, requests, done, indices, statuses, error)
    if (done < 1) wrong = wrong + 1
  end do
  call check_two()
  call start_two()
  flag = .false.
  do while (.not. flag)
    call MPI_Testall(2, requests, flag, statuses, error)
  end do
  call check_two()
  call start_two()
  do while (any(requests /= MPI_REQUEST_NULL))
    call MPI_Testany(2, requests, index, flag, status, error)
  end do
  call check_two()
  call start_two()
  do while (any(requests /= MPI_REQUEST_NULL))
    call MPI_Testsome(2, requests, done, indices, statuses, error)
  end do
  call check_two()
  call MPI_Comm_free(comm, error)
  mine(1) = wrong
  mine(2) = 0
  call MPI_Allreduce(mine, total, 2, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
  if (rank == 0) print '(A, I0, A, I0)', 'wrong ', total(1), ', taken ', taken
  call MPI_Finalize(error)

contains

  subroutine start(started)
    integer, intent(out) :: started
    total = -1
    call MPI_Iallreduce(mine, total, count, MPI_INTEGER, MPI_SUM, comm, started, error)
    taken = taken + 1
  end subroutine

  subroutine check(started)
    integer, intent(in) :: started
    if (started /= MPI_REQUEST_NULL) wrong = wrong + 1
    if (any(total /= ranks * (ranks + 1) / 2)) wrong = wrong + 1
  end subroutine

  subroutine start_two()
    call start(requests(1))
    blocks(:, 1) = -1
    call MPI_Iallreduce(mine, blocks, count, MPI_INTEGER, MPI_MAX, comm, requests(2), error)
    taken = taken + 1
  end subroutine

  subroutine check_two()
    call check(requests(1))
    if (requests(2) /= MPI_REQUEST_NULL) wrong = wrong + 1
    if (any(blocks(:, 1) /= ranks)) wrong = wrong + 1
  end subroutine
end program
